// The former path of codecs/support/scaled_float8.cuh, for files of users.
#pragma once
#include "../codecs/support/scaled_float8.cuh"
