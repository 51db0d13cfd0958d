#include "jit/manifest/reserved_names.h"

#include <algorithm>

#include "jit/base/characters.h"
#include "jit/base/kernel_language.h"

namespace jitstep::jit {
namespace {

using View = std::string_view;

// Lists of words are texts, with spaces between the words.
constexpr View kCppKeywords =
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t "
    "char32_t char8_t class co_await co_return co_yield compl concept const const_cast consteval "
    "constexpr constinit continue decltype default delete do double dynamic_cast else enum "
    "explicit export extern false float for friend goto if inline int long mutable namespace new "
    "noexcept not not_eq nullptr operator or or_eq private protected public register "
    "reinterpret_cast requires return short signed sizeof static static_assert static_cast struct "
    "switch template this thread_local throw true try typedef typeid typename union unsigned "
    "using virtual void volatile wchar_t while xor xor_eq linux unix main errno std";

// Macros of lang/port.cuh without the prefix JITSTEP_.
constexpr View kMacros = "KHD SLOW_PATH INLINED UNROLL ONE_BY_ONE INDEPENDENT INDEPENDENT_LOOP";

// Names that the files of lang/, kernel/args.cuh and kernel/hyper_params.cuh declare.
constexpr View kKernelLanguageNames =
    "KHD SLOW_PATH UNROLL jitstep rules codecs weights gradient real int64 uint64 uint32 uint16 "
    "uint8 Args Conversion Dim ReductionLayout Range KernelConfig Numbers Nullable List null Slot "
    "Signed NonNegative Element all_dims all tensor first rows columns matrices axis Reals Totals "
    "Of Elements Entries Sum Max Entry Nibble NoMeta NoResidual kSame kInfinity kNaN kIsClass "
    "kLittleEndian bits_of number_of float_of double_of fma sqrt abs is_finite unit_clamped min "
    "max maximum sign power elementary exp exp2 log log2 pow cbrt Hyper Rule NoHyper NoFlags "
    "NoSlots NoScalars NoReductions NoAuxState NoOptions thread_index block_index grid_size "
    "block_barrier warp_barrier shuffle_xor chosen max_of_warp SimtBackend kLeaf kMaxDims "
    "kMaxSlots kMaxHyper kCommonHyper kMaxRuleHyper ProbeArgs kMaxReductions kMaxAuxFields "
    "bit_cast copy_bytes select VectorOf Widened kHasVectors kByteLanes kFloatLanes AliasingWord "
    "kNestedLayout kReductionLayouts kGlobalLayout SlotBuffers TensorRecord Layout StepRecord "
    "HyperParams Item AllRecord ReductionRecord NoCode Sizes RandomKey Input NoInputs widen_fp16 "
    "INLINED kRoundsToBf16 kConvertsFp16 round_to_bf16 round_to_fp16 kRoundedAtOnce RandomWords "
    "philox random_bits uniform_of normal_of random_numbers kHas16Bits kHas8Bits kNaN16 in_global "
    "Instruction kE5m2Infinite Matrix NoTransforms kMaxTransforms atan2 tanh magnitude "
    "kHasApproximations near_reciprocal near_inverse_root without_subnormals Ieee Ordinary "
    "OrdinaryOperands kParameterEpsilon kFinding kSuspectedFinding";

// Names that only some compilers know without a header. Functions are in templates/lang/refused.cuh.
constexpr View kCompilerNames =
    "asm __asm__ threadIdx blockIdx blockDim gridDim _Pragma warpSize dim3 ptrdiff_t size_t "
    "cudaError_t cudaStream_t";

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// `float4`, `make_int2`, `ulonglong3`: CUDA's small vectors.
bool is_cuda_vector(View word) {
  constexpr View kElements =
      "char uchar short ushort int uint long ulong float longlong ulonglong double";
  if (word.starts_with("make_")) word.remove_prefix(5);
  if (word.empty() || word.back() < '1' || word.back() > '4') return false;
  return contains_word(kElements, word.substr(0, word.size() - 1));
}

bool is_compiler_specific(View word) {
  return word.starts_with("__") || contains_word(kCompilerNames, word);
}

// The identifier that starts at `at`, with a leading `::`.
View name_at(View code, std::size_t at) {
  std::size_t end = code.substr(at).starts_with("::") ? at + 2 : at;
  while (end < code.size() && in_word(code[end])) ++end;
  return code.substr(at, end - at);
}

// The first name in a line of code that only some compilers know: `__expf`, `::expf`, `threadIdx`.
View foreign_name(View code) {
  for (std::size_t at = 0; at < code.size(); ++at) {
    const char before = at > 0 ? code[at - 1] : ' ';
    if (in_word(before)) continue;
    const View name = name_at(code, at);
    const bool of_type =  // Base<int>::Code, decltype(x)::value
        before == '>' || (before == ')' && code.substr(0, at).find("decltype(") != View::npos);
    const bool global =
        name.size() > 2 && name.starts_with("::") && !of_type && !name.starts_with("::jitstep");
    const bool member = before == '.' || before == ':' || code.substr(0, at).ends_with("->");
    const bool space =
        code.substr(at + name.size()).starts_with("::");  // `int4::Code`: the codec int4
    const bool foreign = is_compiler_specific(name) || (is_cuda_vector(name) && !space);
    if (global || (!member && is_word(name) && foreign)) return name;
  }
  return {};
}

}  // namespace

bool is_word(View text) {
  return !text.empty() && !is_digit(text[0]) && std::all_of(text.begin(), text.end(), in_word);
}

// The number of bytes that follow the first byte of a character, or -1 if none begins with it.
static int following_bytes(unsigned lead) {
  if (lead < 0x80) return 0;
  if (lead >> 5 == 0x06) return 1;
  if (lead >> 4 == 0x0e) return 2;
  return lead >> 3 == 0x1e ? 3 : -1;
}

bool is_utf8(View text) {
  constexpr unsigned kLeast[] = {0, 0x80, 0x800, 0x10000};  // shorter forms exist below
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  for (std::size_t i = 0; i < text.size();) {
    const int more = following_bytes(byte(i));
    if (more < 0 || i + static_cast<std::size_t>(more) >= text.size()) return false;
    unsigned code = more == 0 ? byte(i) : byte(i) & 0x3fu >> more;
    for (int k = 0; k < more; ++k) {
      if (byte(++i) >> 6 != 2) return false;
      code = code << 6 | (byte(i) & 0x3fu);
    }
    const bool surrogate = code >> 11 == 0x1b;
    if (code < kLeast[more] || code > 0x10ffff || surrogate) return false;
    ++i;
  }
  return true;
}

bool begins_with_word(View text, View word) {
  const bool same =
      text.size() >= word.size() && std::equal(word.begin(), word.end(), text.begin(),
                                               [](char a, char b) { return a == lower(b); });
  return same &&
         (text.size() == word.size() || View(" :=(,").find(text[word.size()]) != View::npos);
}

bool contains_word(View code, View word) {
  for (std::size_t at = code.find(word); at != View::npos; at = code.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !in_word(code[at - 1])) && (end == code.size() || !in_word(code[end])))
      return true;
  }
  return false;
}

std::string name_problem(View name) {
  if (!is_word(name)) return "is not a C++ identifier (letters, digits and _)";
  if (contains_word(kCppKeywords, name)) return "is a reserved word of C++";
  if (contains_word(kMacros, name)) return "is a macro of the kernel language";
  const bool reserved = name.find("__") != View::npos ||
                        (name.size() > 1 && name[0] == '_' && name[1] >= 'A' && name[1] <= 'Z');
  if (reserved || name.starts_with("JITSTEP_")) return "is reserved for compilers and macros";
  if (is_compiler_specific(name)) return "is specific to one compiler";
  return {};
}

// Python's keywords. Those that are also C++ keywords are missing here, because name_problem() rejects them.
std::string archive_problem(View name) {
  constexpr View kWords =
      "None True False Ellipsis NoneType as assert def del elif global import in is pass raise "
      "with";
  if (contains_word(kWords, name))
    return "is reserved in torch's archives, which could not be loaded";
  return name.starts_with("jitstep") ? "is reserved for jitstep's own data in checkpoints" : "";
}

std::string file_name_problem(View name) {
  if (std::string problem = name_problem(name); !problem.empty()) return problem;
  return contains_word(kKernelLanguageNames, name) ? "is a name of the kernel language" : "";
}

std::string without_quotes(View code) {
  std::string out(code);
  char quote = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const char c = out[i];
    const bool separator = c == '\'' && i > 0 && in_word(out[i - 1]);  // digit separator: 1'000
    if (quote == 0 && (c == '"' || (c == '\'' && !separator)))
      quote = c;
    else if (quote != 0 && c == quote)
      quote = 0;
    else if (quote != 0 && c == '\\' && i + 1 < out.size())
      out[i] = ' ', out[++i] = ' ';
    else if (quote != 0)
      out[i] = ' ';
  }
  return out;
}

std::string foreign_problem(View line) {
  if (line.starts_with("\xef\xbb\xbf"))
    return "the file begins with a byte order mark, which is invisible. Save it as UTF-8 without "
           "one.";
  const std::string code = without_quotes(line);
  const auto other = std::find_if(code.begin(), code.end(),
                                  [](char c) { return static_cast<unsigned char>(c) > 127; });
  if (other != code.end())
    return "code contains a character that is not ASCII, which not every compiler accepts. Write "
           "it in a comment or remove it.";
  const View name = foreign_name(code);
  return name.empty() ? "" : not_portable(name);
}

}  // namespace jitstep::jit
