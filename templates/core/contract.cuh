// The former path of lang/contract.cuh, for files of users.
#pragma once
#include "../lang/contract.cuh"
