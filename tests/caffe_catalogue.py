"""Caffe's layers and their options, as its caffe.proto of 2020 has them: what docs/from-caffe.md must tell."""

_FILTER = """num_output bias_term pad kernel_size stride dilation pad_h pad_w kernel_h kernel_w stride_h stride_w group
weight_filler bias_filler engine axis force_nd_im2col"""
_RECURRENT = "num_output weight_filler bias_filler expose_hidden debug_info"

LAYERS = {
    "AbsVal": "",
    "Accuracy": "top_k axis ignore_label",
    "ArgMax": "out_max_val top_k axis",
    "BNLL": "",
    "BatchNorm": "use_global_stats moving_average_fraction eps",
    "BatchReindex": "",
    "Bias": "axis num_axes filler",
    "Clip": "min max",
    "Concat": "axis concat_dim",
    "ContrastiveLoss": "margin legacy_version",
    "Convolution": _FILTER,
    "Crop": "axis offset",
    "Data": "source batch_size rand_skip backend prefetch force_encoded_color",
    "Deconvolution": _FILTER,
    "Dropout": "dropout_ratio",
    "DummyData": "data_filler shape",
    "ELU": "alpha",
    "Eltwise": "operation coeff stable_prod_grad",
    "Embed": "num_output input_dim bias_term weight_filler bias_filler",
    "EuclideanLoss": "",
    "Exp": "base scale shift",
    "Filter": "",
    "Flatten": "axis end_axis",
    "HDF5Data": "source batch_size shuffle",
    "HDF5Output": "file_name",
    "HingeLoss": "norm",
    "Im2col": "",
    "ImageData": "source batch_size rand_skip shuffle new_height new_width is_color root_folder",
    "InfogainLoss": "source axis",
    "InnerProduct": "num_output bias_term axis transpose weight_filler bias_filler",
    "Input": "shape",
    "LRN": "local_size alpha beta norm_region k engine",
    "LSTM": _RECURRENT,
    "LSTMUnit": "",
    "Log": "base scale shift",
    "MVN": "normalize_variance across_channels eps",
    "MemoryData": "batch_size channels height width",
    "MultinomialLogisticLoss": "",
    "PReLU": "filler channel_shared",
    "Parameter": "shape",
    "Pooling": "pool pad pad_h pad_w kernel_size kernel_h kernel_w stride stride_h stride_w global_pooling round_mode",
    "Power": "power scale shift",
    "Python": "module layer param_str share_in_parallel",
    "RNN": _RECURRENT,
    "ReLU": "negative_slope",
    "Reduction": "operation axis coeff",
    "Reshape": "shape axis num_axes",
    "SPP": "pyramid_height pool",
    "Scale": "axis num_axes filler bias_term bias_filler",
    "Sigmoid": "",
    "SigmoidCrossEntropyLoss": "",
    "Silence": "",
    "Slice": "axis slice_point slice_dim",
    "Softmax": "axis",
    "SoftmaxWithLoss": "",
    "Split": "",
    "Swish": "beta",
    "TanH": "",
    "Threshold": "threshold",
    "Tile": "axis tiles",
    "WindowData": "source batch_size fg_threshold bg_threshold fg_fraction context_pad crop_mode cache_images",
}
"""{type of a layer: the names of its options}."""

MESSAGES = {
    "Every layer": "name type bottom top phase param blobs include exclude transform_param loss_param loss_weight "
    "propagate_down",
    "Parameters": "name share_mode lr_mult decay_mult",
    "Preparing data": "scale mirror crop_size mean_file mean_value force_color force_gray",
    "Losses": "ignore_label normalization normalize",
    "Fillers": "type value min max mean std sparse variance_norm constant uniform gaussian positive_unitball xavier "
    "msra bilinear",
    "Phases, levels and stages": "phase level stage min_level max_level not_stage",
    "The solver": """net net_param train_net test_net test_net_param train_net_param train_state test_state test_iter
test_interval test_initialization test_compute_loss base_lr display average_loss max_iter iter_size lr_policy gamma
power momentum weight_decay regularization_type stepsize stepvalue clip_gradients snapshot snapshot_prefix snapshot_diff
snapshot_format solver_mode device_id random_seed type delta momentum2 rms_decay debug_info snapshot_after_train
layer_wise_reduce weights fixed step exp inv multistep poly sigmoid""",
    "The command line": """caffe train|caffe test|caffe time|caffe device_query|--solver|--model|--weights|--snapshot|
--gpu|--iterations|--phase|--level|--stage|--sigint_effect|--sighup_effect|convert_imageset|compute_image_mean|
extract_features|upgrade_net_proto_text|upgrade_net_proto_binary|upgrade_solver_proto_text|parse_log|plot_training_log|
summarize.py|draw_net.py""",
}
"""{section of the page: what it must name}; between names are blanks, or bars."""
