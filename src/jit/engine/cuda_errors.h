// What a user can do about an error of the CUDA driver.
#pragma once

#include <string_view>

namespace jitstep::jit {

/// One clause of advice for a CUresult, such as "step outside the capture"; empty for codes that
/// need none beyond the driver's own words.
std::string_view cuda_advice(int code);

}  // namespace jitstep::jit
