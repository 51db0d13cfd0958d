// The dtypes of parameters and gradients: names, sizes and types in templates.
#pragma once

#include <string>
#include <string_view>

#include "jitstep/jit/export.h"

namespace jitstep::jit {

/// The dtypes of parameters and gradients.
enum class Dtype { float64, float32, bfloat16, float16 };

/// "float64, float32, bfloat16 or float16", for messages.
inline constexpr std::string_view kDtypeList = "float64, float32, bfloat16 or float16";

/// "float32" and so on.
JITSTEP_API std::string to_string(Dtype dtype);
/// Inverse of to_string(). Any other text throws an Error.
JITSTEP_API Dtype parse_dtype(std::string_view name);
/// Bytes of one element.
JITSTEP_API int bytes_of(Dtype dtype);
/// Bytes of the arithmetic type, `real`: 8 for float64 parameters, else 4.
JITSTEP_API int real_bytes(Dtype parameter);
/// Its class in lang/formats.cuh: "jitstep::BFloat16".
JITSTEP_API std::string template_type(Dtype dtype);

}  // namespace jitstep::jit
