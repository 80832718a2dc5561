// Activation functions: `forward` of x, and `backward`, the gradient of x, of what is known (y, or x where needs_input of
// nacre_layers.neurons says so) and dy. Each computes as the neuron does, so that a NaN stays one and nothing overflows
// that need not; `a` and `b` are the neuron's fields.

struct Identity {
    template <class W> __device__ static W forward(W x, W, W) { return x; }
    template <class W> __device__ static W backward(W, W dy, W, W) { return dy; }
};

struct ReLU { // a: epsilon
    template <class W> __device__ static W forward(W x, W a, W) { return larger(x, a); }
    template <class W> __device__ static W backward(W y, W dy, W a, W) { return y > a ? dy : W(0); }
};

struct Sigmoid {
    template <class W> __device__ static W forward(W x, W, W) {
        const W part = exp(-fabs(x));
        return (x >= 0 ? W(1) : part) / (part + 1);
    }
    template <class W> __device__ static W backward(W y, W dy, W, W) { return dy * ((1 - y) * y); }
};

struct Tanh {
    template <class W> __device__ static W forward(W x, W, W) { return tanh(x); }
    template <class W> __device__ static W backward(W y, W dy, W, W) { return dy * (1 - y * y); }
};

struct STanh { // a: outer, b: inner
    template <class W> __device__ static W forward(W x, W a, W b) { return tanh(x * b) * a; }
    template <class W> __device__ static W backward(W y, W dy, W a, W b) { return dy * (a * b - y * y * (b / a)); }
};

struct LReLU { // a: slope
    template <class W> __device__ static W forward(W x, W a, W) { return x > 0 ? x : x * a; }
    template <class W> __device__ static W backward(W y, W dy, W a, W) { return y > 0 ? dy : dy * a; }
};

struct ELU { // a: alpha
    template <class W> __device__ static W forward(W x, W a, W) { return x > 0 ? x : expm1(x) * a; }
    template <class W> __device__ static W backward(W y, W dy, W a, W) { return y > 0 ? dy : dy * (y + a); }
};

struct SELU { // a: scale, b: scale alpha
    template <class W> __device__ static W forward(W x, W a, W b) { return x > 0 ? x * a : expm1(x) * b; }
    template <class W> __device__ static W backward(W y, W dy, W a, W b) { return dy * (y > 0 ? a : y + b); }
};

struct Softplus { // a: beta
    template <class W> __device__ static W forward(W x, W a, W) {
        return larger(x, W(0)) + log1p(exp(fabs(x) * -a)) / a;
    }
    template <class W> __device__ static W backward(W y, W dy, W a, W) { return dy * -expm1(y * -a); }
};

struct Exponential {
    template <class W> __device__ static W forward(W x, W, W) { return exp(x); }
    template <class W> __device__ static W backward(W y, W dy, W, W) { return dy * y; }
};

// From here on the tails of the normal and the logistic distribution are 0.
template <class W> __device__ inline W far_out();
template <> __device__ inline float far_out<float>() { return 16; }
template <> __device__ inline double far_out<double>() { return 40; }

// y / (1 + exp(z)) for z of 0 and above, in an order in which only the result may be denormal.
template <class W> __device__ inline W times_logistic_tail(W z, W y) {
    const W root = exp(z * W(-0.5));
    return y / (root * root + 1) * root * root;
}

// A function x s(x), where the gate s rises from 0 to 1 and s(x) + s(-x) = 1. `Tail` multiplies by the tail q(a) =
// s(-a), and has v(a) = -q'(a) / q(a).
template <class Tail, class W> __device__ inline W gated(W x, W far, W b, bool mirrored) {
    const W a = smaller(fabs(x), far), part = Tail::times(a, a, b);
    return mirrored ? smaller(x, W(0)) + part : larger(x, W(0)) - part;
}
template <class Tail, class W> __device__ inline W gated_slope(W x, W far, W b, bool mirrored) {
    const W a = smaller(fabs(x), far), slope = Tail::times(a, 1 - Tail::fall(a, b) * a, b);
    return (mirrored ? x < 0 : x > 0) ? 1 - slope : slope;
}

struct LogisticTail { // b: beta, not below 0
    template <class W> __device__ static W times(W a, W y, W b) { return times_logistic_tail(a * b, y); }
    template <class W> __device__ static W fall(W a, W b) {
        const W root = exp(a * b * W(-0.5));
        return b / (root * root + 1);
    }
};

struct SiLU { // a: beta, which may be below 0; b: from where on the tail is 0
    template <class W> __device__ static W forward(W x, W a, W b) { return gated<LogisticTail>(x, b, fabs(a), a < 0); }
    template <class W> __device__ static W backward(W x, W dy, W a, W b) {
        return dy * gated_slope<LogisticTail>(x, b, fabs(a), a < 0);
    }
};

template <int N, class W> __device__ inline W polynomial(const W (&coefficients)[N], W x) {
    W sum = coefficients[N - 1];
    for (int n = N - 2; n >= 0; n--) sum = sum * x + coefficients[n];
    return sum;
}

// (1 - Φ(a)) / φ(a): the quotients of nacre_layers.mills_ratio.
__device__ inline float mills_ratio(float a) {
    const float p[] = {1.2533141460688395f, 1.1055093367580657f, 0.4644077704598022f, 0.10357823918485105f,
                       0.010575434652397847f};
    const float q[] = {1.0f, 1.6799538842146522f, 1.2109475193229127f, 0.4748488322206756f, 0.10358379187183936f,
                       0.0105753365168511f};
    return polynomial(p, a) / polynomial(q, a);
}
__device__ inline double mills_ratio(double a) {
    const double p[] = {1.2533141373155003,    2.0768633923989253,    1.7059676597479887,    0.8976140545896392,
                        0.33191411396496445,   0.0897199484520895,    0.01793090503105956,   0.002619533571175278,
                        0.0002687547357182262, 1.7610368973345447e-05, 5.666341005780408e-07};
    const double q[] = {1.0,
                        2.4549817964946308,
                        2.819957329417056,
                        2.004663433001908,
                        0.9822711759591075,
                        0.34931316890201275,
                        0.09230426156499465,
                        0.018198526490004082,
                        0.0026371439403407525,
                        0.0002693213698158574,
                        1.7610368973372918e-05,
                        5.666341005779242e-07};
    return polynomial(p, a) / polynomial(q, a);
}

struct NormalTail {
    // The square of a would be rounded, so a² = h² + (a - h) (a + h) with a multiple h of 1/16, whose square is exact.
    template <class W> __device__ static W times(W a, W y, W) {
        const W high = floor(a * 16) * W(0.0625), part = exp(high * high * W(-0.25));
        return y * mills_ratio(a) * W(0.3989422804014327) * part * exp((a - high) * W(-0.5) * (a + high)) * part;
    }
    template <class W> __device__ static W fall(W a, W) { return 1 / mills_ratio(a); }
};

struct TanhTail { // the tail of tanh is a logistic one, of 2 √(2/π) (a + 0.044715 a³)
    template <class W> __device__ static W angle(W a) { return (a * a * W(0.044715) + 1) * a * W(1.5957691216057308); }
    template <class W> __device__ static W times(W a, W y, W) { return times_logistic_tail(angle(a), y); }
    template <class W> __device__ static W fall(W a, W) {
        const W root = exp(angle(a) * W(-0.5));
        return (a * a * W(3 * 0.044715 * 1.5957691216057308) + W(1.5957691216057308)) / (root * root + 1);
    }
};

template <class Tail> struct GaussianUnit {
    template <class W> __device__ static W forward(W x, W, W) { return gated<Tail>(x, far_out<W>(), W(0), false); }
    template <class W> __device__ static W backward(W x, W dy, W, W) {
        return dy * gated_slope<Tail>(x, far_out<W>(), W(0), false);
    }
};
typedef GaussianUnit<NormalTail> GELU;
typedef GaussianUnit<TanhTail> TanhGELU;

struct Mish { // the factor of x is root² over / under
    template <class W> struct Parts {
        W root, over, under, bend, t;
        __device__ explicit Parts(W x) {
            root = exp(fabs(x) * W(-0.5));
            t = root * root;
            const bool above = x >= 0;
            over = above ? t + t + 1 : t + 2;
            bend = above ? t * t : W(1);
            under = (t + 1) * (t + 1) + bend;
            root = above ? W(1) : root;
        }
    };
    template <class W> __device__ static W forward(W x, W, W) {
        const Parts<W> p(x);
        const W far = far_out<W>() * far_out<W>();
        return larger(x, -far) * p.root * p.over / p.under * p.root;
    }
    template <class W> __device__ static W backward(W x, W dy, W, W) {
        const Parts<W> p(x);
        const W far = far_out<W>() * far_out<W>(), near = smaller(larger(x, -far), far);
        return dy * ((near * (p.t + 1) * p.bend * 4 / p.under + p.over) / p.under * p.root * p.root);
    }
};

struct Hardswish {
    template <class W> __device__ static W forward(W x, W, W) {
        return larger(x, W(-3)) * (smaller(larger(x + 3, W(0)), W(6)) / 6);
    }
    template <class W> __device__ static W backward(W x, W dy, W, W) {
        return dy * (x <= -3 ? W(0) : x >= 3 ? W(1) : (x * 2 + 3) / 6);
    }
};
