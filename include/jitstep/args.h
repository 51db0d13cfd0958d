// Kernel arguments: one source for the host and for the templates. Installed as a separate file.
#pragma once

#include "../../templates/kernel/args.cuh"
