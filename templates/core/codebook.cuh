// The former path of codecs/support/codebook.cuh, for files of users.
#pragma once
#include "../codecs/support/codebook.cuh"
