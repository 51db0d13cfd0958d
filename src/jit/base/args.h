// Kernel arguments: one source for the host and for the templates.
#pragma once

#include "../../../templates/kernel/args.cuh"
