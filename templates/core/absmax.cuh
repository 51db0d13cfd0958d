// The former path of codecs/support/absmax.cuh, for files of users.
#pragma once
#include "../codecs/support/absmax.cuh"
