/* A stand-in for libcudart.so.13, CUDA's runtime, of which cuDNN's frontend asks which device it is, before it looks for a
   plan of attention: an H200. */

#include <string.h>

enum { SUCCESS = 0, SIZE = 1008, TOTAL = 288, MAJOR = 360, MULTIPROCESSORS = 384 };

int cudaGetDevice(int *device) { return *device = 0, SUCCESS; }
const char *cudaGetErrorString(int error) { return "none"; }

/* The struct cudaDeviceProp of CUDA 13: its size, and where in it the numbers of a device are. */
int cudaGetDeviceProperties(char *properties, int device) {
    const long long total = 150000000000;
    const int version[2] = {9, 0}, multiprocessors = 132;
    memset(properties, 0, SIZE);
    strcpy(properties, "NVIDIA H200");
    memcpy(properties + TOTAL, &total, sizeof total);
    memcpy(properties + MAJOR, version, sizeof version);
    memcpy(properties + MULTIPROCESSORS, &multiprocessors, sizeof multiprocessors);
    return SUCCESS;
}
