// The few lines of text that make a kernel of a spec: includes and one instantiation.
#pragma once

#include <string>
#include <vector>

#include "jitstep/args.h"
#include "jitstep/jit/export.h"
#include "jitstep/jit/spec.h"
#include "jitstep/jit/target.h"

namespace jitstep::jit {

using jitstep::Variant;

/// A translation unit for Engine::kernel.
struct JITSTEP_API Unit {
  std::string name;  // readable, such as "adamw_int8_float32"
  std::string text;
  int passes = 0;                    // each is jitstep_partials_<k>, then jitstep_finish_<k>
  std::vector<std::string> entries;  // in the order of launching; the last is jitstep_apply
};

/// The unit of one optimizer step. The spec is completed and checked first.
JITSTEP_API Unit unit(const KernelSpec& spec, const Variant& variant, const Target& target,
                      const Catalog& catalog = default_catalog());

/// How a spec is run when nobody has tuned it.
JITSTEP_API Variant default_variant(const KernelSpec& spec, const Target& target,
                                    const Catalog& catalog = default_catalog());

/// A readable name of the spec, such as "lamb_int8_fp32_bfloat16".
JITSTEP_API std::string unit_name(const KernelSpec& spec);

// ---- the pieces, for units of other kinds; all take a completed spec ---------------------------

/// The arithmetic type and the includes of the spec's own files, without any schedule.
JITSTEP_API std::string include_text(const KernelSpec& spec);

/// `using UnitSpec = jitstep::Spec<...>;` with what it is made of, and the assertions that hold the
/// manifests to what the compiler reads. To follow the include of a schedule.
JITSTEP_API std::string spec_text(const KernelSpec& spec, const Variant& variant,
                                  const Catalog& catalog = default_catalog());

/// spec_text and `using Kernel = jitstep::Step<UnitSpec, passes>;`.
JITSTEP_API std::string kernel_text(const KernelSpec& spec, const Variant& variant,
                                    const Catalog& catalog = default_catalog());

/// `jitstep::codecs::int8::Codec<jitstep::Signed, ...>` of a completed choice.
JITSTEP_API std::string codec_type(const CodecChoice& choice, bool is_signed,
                                   const Catalog& catalog = default_catalog());

}  // namespace jitstep::jit
