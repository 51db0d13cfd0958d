// Hyperparameters, addresses of state and launch configurations: one source for the host and for the templates.
// Installed as a separate file.
#pragma once

#include "../../templates/kernel/hyper_params.cuh"
