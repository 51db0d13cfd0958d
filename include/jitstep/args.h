// What kernels are given: one text for the host and for the templates. Installed as a file of its own.
#pragma once

#include "../../templates/core/args.cuh"
