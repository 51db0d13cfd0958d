// The kernels of a step that visits elements tile by tile.
#pragma once
#include "step.cuh"
#include "tile/traversal.cuh"
