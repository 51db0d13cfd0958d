// The kernels of a step that visits elements in loops.
#pragma once
#include "loop/traversal.cuh"
#include "step.cuh"
