// Provokes every error message of the manifest reader. Each must contain file, line and what to write instead.
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <sstream>

#include "jit/base/text.h"
#include "jit/manifest/manifest_reader.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

using Kind = Manifest::Kind;

struct Mistake {
  Kind kind;
  int line;  // line in the file, from 1
  const char* content;
  const char* message;  // a substring
};

// Common first lines of the cases below. The text of each case begins in line 2 or later.
#define RULE "namespace jitstep::rules::mine {\n"
#define CODEC "namespace jitstep::codecs::mine {\n"
#define WEIGHTS "namespace jitstep::weights::mine {\n"
#define HYPER RULE "struct Hyper {\n"
#define FLAGS RULE "enum class Form { old, right };\nstruct Flags {\n"
#define TRANSFORMS RULE "struct Transforms {\n"
#define MATRICES RULE "struct Matrices {\n"
#define SLOTS RULE "struct Slots {\n"
#define SUMS RULE "struct A { real x; };\nstruct B { real x; };\nstruct Reductions {\n"
#define MEMORY RULE "struct AuxState {\n"
#define REFUSE HYPER "double a = 1;\nNumbers<2> n = {1, 2};\nNullable u = null;\n};\n// refuse: "

const std::vector<Mistake>& mistakes() {
  static const std::vector<Mistake> all = {
      // ---- inputs, and auxiliary state that elements read
      {Kind::rule, 3, RULE "struct Inputs {\nSigned x;\n};\n", "expected Input, found `Signed"},
      {Kind::rule, 3, RULE "struct Inputs {\nInput;\n};\n", "expected the input's name, found `;`"},
      {Kind::rule, 3, RULE "struct Inputs {\nInput p;\n};\n",
       "`p` is the parameter or the gradient. Rename the input."},
      {Kind::rule, 3, RULE "struct Inputs {\nInput random;\n};\n",
       "`random` is a function of elements. Rename the input."},
      {Kind::rule, 6, SLOTS "Signed m;\n};\nstruct Inputs {\nInput m;\n};\n",
       "`m` is also a slot. Rename one."},
      {Kind::rule, 5, RULE "struct Inputs {\nInput a;\nInput b;\nInput c;\n};\n",
       "a file can declare at most 2 inputs"},
      {Kind::rule, 3, SLOTS "Signed random;\n};\n",
       "`random` is a function of elements. Rename the slot."},
      {Kind::rule, 6,
       RULE "struct Inputs {\nInput x;\n};\nstruct AuxState {\nEntry<tensor> x;  // elements\n};\n",
       "`x` is also an input. Rename one."},
      {Kind::rule, 3, MEMORY "Entry<tensor> g;  // elements\n};\n",
       "`g` is the parameter or the gradient. Rename the field."},
      {Kind::codec, 6,
       CODEC "using Code = uint8;\nstruct A { real x; };\nstruct Reductions { Sum<tensor, 1, A> a; "
             "};\nstruct AuxState {\nEntry<tensor> x;  // elements\n};\n",
       "only elements of a rule read auxiliary state. Remove the note `elements`."},
      // ---- the file
      {Kind::rule, 1, "// A rule.\r#pragma once\r",
       "a line end is a carriage return alone, which compilers do not know. Save the file with "
       "the line ends of Unix or Windows."},
      {Kind::rule, 3, SLOTS "Signed m;  // keeps: fp32\n};\n",
       "the note `keeps:` is now called `codec:`"},
      {Kind::rule, 1, "// host stage: newton_schulz\n" RULE,
       "`host stage:` is now called `host transform:`"},
      {Kind::rule, 1, "struct Hyper {\n};\n", "expected `namespace jitstep::rules::mine {`"},
      {Kind::rule, 2, "\nnamespace jitstep::rules::yours {\n", ", to match the file's name"},
      {Kind::rule, 1, CODEC, ". This file is a codec. Call load_codec()."},
      {Kind::codec, 1, RULE, ". This file is a rule. Call load_rule()."},
      {Kind::rule, 3, RULE "}\nnamespace jitstep::other {\n",
       "a file can declare only one jitstep namespace. Keep one."},
      {Kind::rule, 1, "// class: A  class: B\n" RULE,
       "a rule has more than one `class:`. Keep one."},
      {Kind::rule, 1, "// class: 8\n" RULE, "expected the name of a C++ class, found `8`"},
      {Kind::rule, 1, "// class: class\n" RULE,
       "`class` is a reserved word of C++. Choose another name after `class:`."},
      {Kind::rule, 1, "// class: A B\n" RULE, "expected nothing more, found `B` in `A B`"},
      {Kind::rule, 1, "// min_quantized_size: -1\n" RULE,
       "expected an integer from 0 to 1073741824, found `-1` in `-1`"},
      {Kind::rule, 2, "// x\n// default state: int8 if 1\n" RULE, "expected a condition, such as"},
      {Kind::rule, 1, "// default state: 8\n" RULE, "expected a codec, found `8`"},
      {Kind::rule, 1, "// default state: int8(block)\n" RULE, "expected `=`, found `)`"},
      {Kind::rule, 1, "// default state: int8(block = 64\n" RULE, "expected `)`, found the end"},
      {Kind::rule, 1, "// default state: int8(64)\n" RULE,
       "expected an option of the codec, found `64)`"},
      {Kind::rule, 1, "// default state: int8(block = *)\n" RULE,
       "expected a value, or the name of one of the rule's numbers, found `*)`"},
      {Kind::rule, 1, "// default state: int8(block = 64) or int4\n" RULE,
       "expected nothing more, found `or int4`"},
      {Kind::rule, 1, "// default state: int8(block = 64, block = 32)\n" RULE,
       "the option `block` is given twice. Keep one."},
      {Kind::rule, 2,
       "// default state: int8(block = 64)\n// default state: int8(block = 32)\n" RULE,
       "the options of int8 are given twice. Keep one."},
      {Kind::codec, 3, CODEC "struct Hyper {\n  Nullable least = null;\n};\nusing Code = uint8;\n",
       "a number of a codec must be a plain `double`"},
      {Kind::codec, 3, CODEC "struct Hyper {\n  double block = 1;\n};\nusing Code = uint8;\n",
       "`dims` and `block` are constants: declare them in Options."},
      {Kind::weights, 1, "// for: float32, \n" WEIGHTS "using Residual = NoResidual;\n",
       "expected a dtype, found the end"},
      {Kind::weights, 1, "// for: float8\n" WEIGHTS "using Residual = NoResidual;\n",
       "no dtype \"float8\" (did you mean \"float64\"?). Known dtypes: float64, float32, "},
      {Kind::weights, 1, WEIGHTS "using Residual = NoResidual;\n",
       "expected `for: float32, ...` in the leading comment, with the supported dtypes"},
      {Kind::rule, 2, RULE "# include <cmath>\n",
       "a template cannot include system headers. Remove `# include <cmath>`. "
       "See the functions that you can use in docs/extending/reference.md, the kernel language "
       "reference, under Functions and types."},
      {Kind::rule, 2, RULE "real f(real x) { return __expf(x); }\n",
       "`__expf` is specific to one compiler and differs between targets. See the names"},
      {Kind::rule, 3, RULE "struct Rule {\nreal f(real x) { return x < 0 ? x : ::expf(x); }\n",
       "`::expf` is specific to one compiler"},
      {Kind::codec, 2, CODEC "static real f(real x) { return __builtin_expf(x); }\n",
       "`__builtin_expf` is specific to one compiler"},
      // ---- structures
      {Kind::rule, 2, RULE "struct Hyper\n{\n};\n", "expected `struct Hyper {`"},
      {Kind::rule, 2, RULE "struct Hyper { double a = 1;\n};\n", "alone or closed by `};`"},
      {Kind::rule, 2, HYPER "double a = 1;\n",
       "`struct Hyper` is not closed. Add `};` on its own line."},
      {Kind::rule, 4, HYPER "};\nstruct Hyper {\n};\n",
       "`struct Hyper` is declared twice. Keep one."},
      {Kind::rule, 3, RULE "#if 1\nstruct Hyper {\n};\n#endif\n",
       "`struct Hyper` is inside #if, which is not evaluated. Move it out of it."},
      {Kind::rule, 3, HYPER "double a = 1;  // x \\\n};\n",
       "a line cannot end in a backslash, which joins the next one. Remove it."},
      {Kind::rule, 4, RULE "# if 0\n# else\nstruct Hyper {\n};\n# endif\n", "is inside #if"},
      {Kind::rule, 3, RULE "#ifdef X\nenum class D { a };\n#endif\n", "`enum class D` is inside"},
      {Kind::codec, 3, CODEC "#if 1\nusing Code = uint8;\n#endif\n", "`using Code` is inside #if"},
      {Kind::rule, 2, RULE "struct [[nodiscard]] Hyper {\n};\n", "expected `struct Hyper {`"},
      {Kind::rule, 2, RULE "struct alignas(8) Slots {\n};\n", "expected `struct Slots {`"},
      {Kind::rule, 3, RULE "struct\tSlots\t{\nUnsigned m;\n};\n", "expected Signed or"},
      {Kind::rule, 4, RULE "struct Hyper {\n\tdouble a = 1;  // a range:\n        // >= 0\n};\n",
       "this comment is indented by other blanks than the declaration above, tabs or spaces. "
       "Indent both by the same ones."},
      {Kind::rule, 3, RULE "enum class D { a };\nenum class D { b };\n",
       "`D` is declared twice. Rename one."},
      // ---- numbers
      {Kind::rule, 3, HYPER "float a = 1;\n};\n",
       "expected double, Numbers<N>, Nullable or List, found `float a = 1;` in `float a = 1;`"},
      {Kind::rule, 3, HYPER "int k = 2;\n};\n", "expected double with the note `integer`, found"},
      {Kind::rule, 3, HYPER "bool k = true;\n};\n", "(a bool belongs to `struct Flags`), found"},
      {Kind::rule, 3, HYPER "double a = 1;  // caf\xe9\n};\n",
       "is not UTF-8. Save the file as UTF-8."},
      {Kind::rule, 1, "// Caf\xe9 optimizer\n" RULE, "is not UTF-8. Save the file as UTF-8."},
      {Kind::rule, 3, HYPER "double 8 = 1;\n};\n", "expected the option's name, found `8 = 1;`"},
      {Kind::rule, 3, HYPER "double a;\n};\n", "expected `=`, found `;`"},
      {Kind::rule, 3, HYPER "double a = 1e999999;\n};\n", "expected a finite decimal number"},
      {Kind::rule, 3, HYPER "double a = 1f;\n};\n", "expected a decimal number without a suffix"},
      {Kind::rule, 3, HYPER "double a = 1\n};\n", "expected `;`, found the end"},
      {Kind::rule, 3, HYPER "double a = 1; double b = 1;\n};\n", "expected nothing more"},
      {Kind::rule, 3, HYPER "Numbers<1000000000> a = {1};\n};\n", "an integer from 1 to "},
      {Kind::rule, 3, HYPER "Numbers 2 a = {1};\n};\n", "expected `<`, found `2"},
      {Kind::rule, 3, HYPER "Numbers<2 a = {1};\n};\n", "expected `>`, found `a"},
      {Kind::rule, 3, HYPER "Numbers<2> a = 1;\n};\n", "expected `{`, found `1;`"},
      {Kind::rule, 3, HYPER "Numbers<2> a = {1};\n};\n",
       "expected `,` of a list of 2 numbers, found `};`"},
      {Kind::rule, 3, HYPER "Numbers<2> a = {1, 2, 3};\n};\n",
       "expected `}` of a list of 2 numbers, found `, 3};`"},
      {Kind::rule, 3, HYPER "double a = 1;  // in (2, 1)\n};\n", "no number is in this range"},
      {Kind::rule, 3, HYPER "double a = 1;  // > 1 <= 1\n};\n", "no number is in this range"},
      {Kind::codec, 3, CODEC "struct Options {\nint a = 4;  // in [8, 4]\n};\n",
       "no number is in this range"},
      {Kind::rule, 3, HYPER "List a = {1};\n};\n",
       "expected `}` of a list of 0 numbers, found `1};`"},
      {Kind::rule, 4, HYPER "double a = 1;\ndouble a = 1;\n};\n", "`a` is declared twice. Rename"},
      {Kind::rule, 4, HYPER "};\nstruct Flags { bool dims = true; };\n",
       "`dims` is reserved in conditions. Rename the option."},
      {Kind::rule, 5, HYPER "double a = 1;\n};\nstruct Flags { bool a = true; };\n",
       "`a` is declared twice. Rename one."},
      {Kind::rule, 2,
       HYPER "Numbers<24> a = {1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1};\n"
             "Numbers<9> b = {1,1,1,1,1,1,1,1,1};\n};\n",
       "Hyper has 33 numbers. At most 32 are allowed."},
      {Kind::rule, 3, HYPER "double a = -1;  // >= 0\n};\n",
       "the default value is out of range: a is -1 and must be >= 0"},
      {Kind::rule, 3, HYPER "double a = 1;  // >= 0; > 0\n};\n", "expected one bound on each side"},
      {Kind::rule, 3, HYPER "double a = 1;  // in [0, 1\n};\n", "expected `]`, found the end"},
      {Kind::rule, 3, HYPER "double a = 1;  // => 0\n};\n",
       "cannot read the note `=> 0`. Write a range like `>= 0` or `in [0, 1)`. Start free text "
       "with"},
      {Kind::rule, 3, HYPER "double a = 1;  // between 0 and 1\n};\n",
       "the note `between 0 and 1` is not a valid range. Write for example `>= 0`"},
      {Kind::rule, 3, HYPER "double a = 1;  // must be >= 0\n};\n",
       "the note `must be >= 0` is not a valid range"},
      {Kind::codec, 3, CODEC "struct Options {\nint a = 1;  // 0..1\n};\n",
       "the note `0..1` is not a valid range"},
      {Kind::rule, 3, HYPER "double a = 1;  // size: a\n};\n",
       "unknown note `size:`. Free text cannot start with a word and a colon."},
      {Kind::rule, 3, HYPER "double a = 1;  // must be a positive integer\n};\n",
       "is not a valid range"},
      {Kind::rule, 3, HYPER "double a = 1;  // integers\n};\n", "is not a valid range"},
      {Kind::rule, 3, HYPER "double a = 1;  // (0, inf)\n};\n", "is not a valid range"},
      {Kind::rule, 3, HYPER "double a = 1;  // must not be zero\n};\n", "is not a valid range"},
      {Kind::rule, 3, HYPER "double a = 1;  // nonzero\n};\n", "is not a valid range"},
      {Kind::rule, 3, HYPER "Numbers<2> lr = {1, 1};\n};\n",
       "`lr` is the learning rate, which schedulers set. Declare it in Hyper as `double` or "
       "`Nullable`, or rename it."},
      {Kind::rule, 3, HYPER "List lr = {};\n};\n", "`lr` is the learning rate"},
      {Kind::rule, 4, FLAGS "bool lr = true;\n};\n", "`lr` is the learning rate"},
      // ---- notes that are not written as they are read
      {Kind::rule, 7, FLAGS "bool a = true;\n};\nstruct Slots {\nSigned m;  // if(a)\n};\n",
       "cannot read `if(a)`. Write `if CONDITION`"},
      {Kind::rule, 3, SLOTS "Signed m;  // initial=1\n};\n",
       "cannot read `initial=1`. Write `initial: NUMBER"},
      {Kind::rule, 3, SLOTS "Signed m;  // codec=fp32\n};\n", "cannot read `codec=fp32`"},
      {Kind::rule, 5, SUMS "Sum<tensor, 1, A> a;  // update_state, after others\n};\n",
       "cannot read `update_state, after others`"},
      {Kind::rule, 3, MEMORY "Entry<tensor> x;  // elements, initial: 1\n};\n",
       "cannot read `elements, initial: 1`"},
      {Kind::rule, 3, HYPER "double a = 1;  // same in all groups, always\n};\n",
       "cannot read `same in all groups, always`"},
      {Kind::rule, 3, RULE "struct Transforms {\nreal a;  // host=x\n};\n",
       "cannot read `host=x`. Write `host: NAME`"},
      {Kind::rule, 1, "// Mine.   class:\n" RULE, "cannot read `class:`. Write `class: "},
      {Kind::rule, 1, "// Mine.   class=Mine\n" RULE, "cannot read `class=Mine`"},
      {Kind::rule, 1, "// Mine.   modes=train, eval\n" RULE, "cannot read `modes=train, eval`"},
      {Kind::rule, 1, "// Mine.   default state=int8\n" RULE, "cannot read `default state=int8`"},
      {Kind::rule, 2, RULE "// Mine.   default state: int8\n",
       "must be in the file's leading comment"},
      {Kind::codec, 2, CODEC "// signed: int8\n", "must be in the file's leading comment"},
      {Kind::rule, 1, "// A.   default state: int8  if big\n" FLAGS "bool big = false;\n};\n",
       "`if big` has no effect after two spaces"},
      {Kind::rule, 1, "// min_quantized_size: 1024 elements\n" RULE, "expected nothing more"},
      {Kind::rule, 2, "// default state: int8\n// default state: fp32\n" RULE,
       "this one is never used"},
      {Kind::rule, 2, "// min_quantized_size: 1\n// min_quantized_size: 2\n" RULE,
       "this one is never used"},
      // ---- names with two meanings
      {Kind::rule, 4, FLAGS "bool big = false;  // lifted: numel > 1\nbool numel = false;\n};\n",
       "`numel` is declared below the condition"},
      {Kind::rule, 4, FLAGS "bool numel = false;  // lifted: numel > 10\n};\n",
       "the condition of `numel` names the flag itself, which also hides a size of this name. "
       "Rename the flag."},
      {Kind::rule, 3, SLOTS "Signed codec;\n};\n", "`codec` is reserved in checkpoints"},
      {Kind::rule, 5, SUMS "Sum<rows, 1, A> rows;\n};\n", "`rows` is a domain"},
      {Kind::rule, 6, SUMS "Sum<tensor, 1, A> rows;\nSum<rows, 1, B> b;\n};\n",
       "`rows` is a domain"},
      {Kind::rule, 3, MEMORY "Entry<tensor> tensor;\n};\n", "`tensor` is a domain"},
      {Kind::rule, 5, SUMS "Sum<tensor, 1, A> transformed;\n};\n",
       "`transformed` is the result of a host transform"},
      {Kind::rule, 5, SUMS "Sum<tensor, 1, A> jitstep_pass;\n};\n",
       "names that begin with `jitstep` are for generated code. Rename the reduction."},
      {Kind::rule, 8,
       SUMS
       "Sum<tensor, 1, A> a;\n};\nstruct Scalars {\nreal lr,\n    a;\n};\nScalars prepare();\n",
       "`a` is also a reduction"},
      {Kind::rule, 2, RULE "struct Scalars {\nreal lr;\n};\nScalars prepared();\n",
       "the rule has Scalars: it needs `static Scalars prepare(const Hyper& h, int64 t)`"},
      {Kind::rule, 4, HYPER "double a = 1;\n}\nstruct Slots {\nSigned m;\n};\n",
       "`struct Hyper` ends in `};`. Add the semicolon."},
      {Kind::rule, 6,
       HYPER
       "double start = 0;  // finite\n};\nstruct Slots {\nNonNegative v;  // initial: start\n};\n",
       "a NonNegative slot starts at `start`, which may be negative"},
      {Kind::codec, 4,
       CODEC
       "using Code = uint8;\nstruct A { real x; };\nstruct Reductions { Sum<all, 1, A> a; };\n",
       "a codec's sum over `all` tensors"},
      {Kind::codec, 4,
       CODEC
       "using Code = uint8;\nstruct Options {\nint block = 4;  // power of two in [1, 8]\n};\n"
       "struct Meta { float scale; };\n",
       "a block with Meta has at least 2 elements"},
      {Kind::codec, 3,
       CODEC "struct Options {\nint block = 4;  // power of two in [2, 131072]\n};\n"
             "using Code = uint8;\n",
       "a block has at most 65536 elements, because kernels keep one on the stack. Let its range "
       "end there."},
      {Kind::codec, 4, CODEC "using Code = uint8;\nstruct Options {\nint dims = 2;  // >= 2\n};\n",
       "expected `int dims = N;  // in [a, b]`"},
      {Kind::rule, 2, RULE "#define MINE_CUH\n", "use `#pragma once`"},
      {Kind::rule, 2, RULE "inline real total(0);\n", "outlives an element"},
      {Kind::rule, 3, HYPER "double a = 1;  // torch: a\n};\n",
       "cannot read `torch: a` here: `torch: NAME` is for slots, auxiliary state and matrices. "
       "Start free "
       "text with another word."},
      {Kind::rule, 3, SLOTS "Signed m;  // initial d0\n};\n",
       "cannot read `initial d0`. Write `initial: NUMBER or OPTION`, for slots, auxiliary"},
      {Kind::rule, 3, SLOTS "Signed m;  // initial:1\n};\n",
       "cannot read `initial:1`. Write `initial: NUMBER"},
      {Kind::rule, 3, SLOTS "Signed m;  // Torch: exp_avg\n};\n", "cannot read `Torch: exp_avg`"},
      {Kind::rule, 3, SLOTS "Signed m;  // If a\n};\n",
       "cannot read `If a`. Write `if CONDITION`, for slots, reductions, auxiliary state and "
       "matrices, or start free text with another word."},
      {Kind::rule, 4, FLAGS "bool a = true;  // lifted dims >= 2\n};\n",
       "cannot read `lifted dims >= 2`. Write `lifted: CONDITION`, for flags of type bool"},
      {Kind::rule, 4, FLAGS "bool a = false;  // lifted: b\nbool b = false;\n};\n",
       "in the condition \"b\": `b` is declared below the condition. Declare it above."},
      {Kind::rule, 4, FLAGS "bool a = false;  // lifted: nummel > 1\n};\n",
       "unknown name `nummel` (did you mean \"numel\"?). Known names: dims, fan_in, fan_out, "
       "numel"},
      {Kind::rule, 3, SLOTS "Signed m;  // if numel > 100\n};\n",
       "only `lifted:` and `refuse:` of a rule can read the size `numel`. Name a flag with "
       "`lifted:` here"},
      {Kind::rule, 6, HYPER "double a = 1;\n};\nstruct Slots {\nSigned m;  // if a != 0\n};\n",
       "in the condition \"a != 0\": `a` is not a flag, and only flags can decide this"},
      {Kind::rule, 3, SLOTS "Signed m;  // initial: 1; codec: int8; initial: 2\n};\n",
       "the note `initial` appears twice"},
      {Kind::rule, 6, SUMS "Sum<rows, 1, A> a;\nSum<rows, 1, B> b;  // after a\n};\n",
       "cannot read `after a`. Write `after: REDUCTION, ...`, for a rule's reductions"},
      {Kind::rule, 5, SUMS "Sum<rows, 1, A> a;  // update_state too\n};\n",
       "cannot read `update_state too`"},
      {Kind::rule, 3, MEMORY "Entry<tensor> a;  // torch: b; if factored\n};\n",
       "in the condition \"factored\": unknown name `factored`. Known names: none."},
      {Kind::rule, 3, HYPER "double a = 1;  // if factored\n};\n",
       "cannot read `if factored` here: `if CONDITION` is for slots, reductions, auxiliary"},
      {Kind::rule, 5, HYPER "double a = 1;\n};\n// refuse a > 1\n",
       "cannot read `refuse a > 1`. Write `// refuse: CONDITION, SENTENCE`, for a line of its own"},
      {Kind::rule, 3, RULE "struct Rule {\n  // refuses: numel > 1, never steps\n",
       "unknown key `refuses:`. Did you mean `refuse:`? Otherwise start free text with another"},
      {Kind::rule, 1, "// Mine.   default states: int8\n" RULE,
       "unknown key `default states:`. Did you mean `default state:`?"},
      {Kind::codec, 1, "// vector: int8\n" CODEC "using Code = uint8;\n",
       "unknown key `vector:`. Did you mean `vectors:`?"},
      {Kind::rule, 3, SLOTS "Signed m;  // codce: int8\n};\n", "Did you mean `codec:`?"},
      {Kind::rule, 3, MATRICES "Matrix<0, 0> m;  // largest sides: 5\n};\n",
       "unknown key `largest sides:`. Did you mean `largest side:`?"},
      {Kind::rule, 4, HYPER "double a = 1;\n// refuse b, a sentence\n};\n",
       "cannot read `refuse b, a sentence`. Write"},
      {Kind::rule, 2, "// A rule.\n// Refuse: lr > 1, too much\n" RULE, "cannot read `Refuse: lr"},
      {Kind::rule, 1, "// class Mine\n" RULE,
       "cannot read `class Mine`. Write `class: NAME`, or start free text with another word."},
      {Kind::rule, 1, "// Mine.   class:Mine\n" RULE, "cannot read `class:Mine`"},
      {Kind::rule, 2, RULE "// default state: int8\n",
       "`// default state: ...` must be in the file's leading comment. Move it there."},
      {Kind::rule, 1, "// default state int8\n" RULE, "Write `default state: CODEC`"},
      {Kind::rule, 1, "// host transform: 3d\n" RULE,
       "expected the name of a host transform, found `3d`"},
      {Kind::rule, 1, "// min_quantized_size 0\n" RULE, "Write `min_quantized_size: NUMBER`"},
      {Kind::rule, 1, "// Host transform: x\n" RULE, "Write `host transform: NAME`"},
      {Kind::rule, 2, "// host transform: x\n// host transform: y\n" RULE,
       "a rule has more than one `host transform:`"},
      {Kind::rule, 3, SLOTS "Signed transformed;\n};\n",
       "`transformed` is the result of a host transform. Rename the slot."},
      {Kind::rule, 1, "// Modes: train, eval\n" RULE, "Write `modes: train, eval`"},
      {Kind::rule, 1, "// initial state: early\n" RULE, "Write `initial state: at construction`."},
      {Kind::rule, 1, "// Step number: none\n" RULE, "Write `step number: none`"},
      {Kind::rule, 1, "// step number: 1\n" RULE, "cannot read the step number `1`"},
      {Kind::rule, 1, "// modes: eval\n" RULE,
       "cannot read the modes `eval`. Write `modes: train, eval`."},
      // ---- names and characters
      {Kind::rule, 3, HYPER "double in = 1;\n};\n",
       "`in` is reserved in torch's archives, which could not be loaded. Rename it."},
      {Kind::rule, 3, SLOTS "Signed m;  // torch: None\n};\n",
       "`None` is reserved in torch's archives"},
      {Kind::rule, 3, SLOTS "Signed step;\n};\n", "`step` is the step count of every state"},
      {Kind::rule, 3, SLOTS "Signed m;  // torch: step\n};\n",
       "`step` is the step count of every state"},
      {Kind::rule, 3, MEMORY "Entry<tensor> step;\n};\n",
       "`step` is the step count of every state"},
      {Kind::rule, 3, SLOTS "Signed dtype;\n};\n", "`dtype` is an entry of every state in Python"},
      {Kind::rule, 3, SLOTS "Signed m;  // torch: strides\n};\n", "`strides` is an entry of every"},
      {Kind::rule, 3, MEMORY "Entry<tensor> sizes;\n};\n", "`sizes` is an entry of every state"},
      {Kind::rule, 3, SLOTS "Signed index;\n};\n",
       "`index` is the number of an element. Rename the slot."},
      {Kind::rule, 6, SLOTS "Signed m;\n};\nstruct AuxState {\nEntry<tensor> m;\n};\n",
       "`m` names both `m` and `m`"},
      {Kind::rule, 6,
       SLOTS "Signed m;  // torch: exp_avg\n};\nstruct AuxState {\nEntry<tensor> exp_avg;\n};\n",
       "`exp_avg` names both `m` and `exp_avg`"},
      {Kind::rule, 4, SLOTS "Signed a;\nSigned b;  // torch: a\n};\n",
       "`a` names both `a` and `b`, so that checkpoints cannot tell them apart. Rename one."},
      {Kind::rule, 4, SLOTS "Signed a;  // torch: b\nSigned b;  // torch: c\n};\n",
       "`b` names both `a` and `b`"},
      {Kind::rule, 5, SLOTS "Signed a;  // torch: x\nSigned c;\nSigned b;  // torch: x\n};\n",
       "`x` names both `a` and `b`"},
      {Kind::rule, 4, MEMORY "Entry<tensor> a;  // torch: x\nEntry<tensor> b;  // torch: x\n};\n",
       "`x` names both `a` and `b`"},
      {Kind::rule, 3, SLOTS "Signed m;  // torch: jitstep\n};\n",
       "`jitstep` is reserved for jitstep's own data in checkpoints. Rename it."},
      {Kind::rule, 3, HYPER "double jitstep_formats = 1;\n};\n",
       "`jitstep_formats` is reserved for jitstep's own data"},
      {Kind::rule, 3, SLOTS "Signed m;  // torch: __parameters__\n};\n",
       "`__parameters__` is reserved for compilers and macros. Rename it."},
      {Kind::rule, 3, SLOTS "Signed m;  // torch: delete\n};\n",
       "`delete` is a reserved word of C++. Rename it."},
      {Kind::codec, 1, "// vectors: int4  vectors: int8\n" CODEC "using Code = uint8;\n",
       "a codec has more than one `vectors:`. Keep one."},
      {Kind::rule, 1, "// default weights kahan\n" RULE, "Write `default weights: FORMAT`"},
      {Kind::rule, 4, FLAGS "bool UNROLL = true;\n};\n",
       "`UNROLL` is a macro of the kernel language. Rename it."},
      {Kind::rule, 2,
       RULE "struct A { real INLINED; };\nstruct Reductions { Sum<rows, 1, A> a; };\n",
       "`INLINED` is a macro"},
      {Kind::rule, 2, RULE "enum class When { default, now };\n",
       "`default` is a reserved word of C++. Rename it."},
      {Kind::rule, 2, RULE "enum class KHD { a, b };\n", "`KHD` is a macro"},
      {Kind::rule, 4,
       RULE "enum class Norm { null, inf };\nstruct Flags {\nNorm norm = Norm::inf;\n};\n",
       "expected a choice without the label `null`, which is reserved in conditions. Rename the "
       "label of Norm"},
      {Kind::rule, 3, HYPER "double register = 1;\n};\n",
       "`register` is a reserved word of C++. Rename it."},
      {Kind::rule, 3, SLOTS "Signed m__2;\n};\n", "`m__2` is reserved for compilers and macros"},
      {Kind::rule, 2, RULE "int x = threadIdx.x;\n",
       "`threadIdx` is specific to one compiler and differs between targets. See the names"},
      {Kind::rule, 2, RULE "float4 x;\n", "`float4` is specific to one compiler"},
      {Kind::rule, 1, "\xef\xbb\xbf" RULE, "the file begins with a byte order mark"},
      {Kind::rule, 2, RULE "real \xce\xb2 = 1;\n",
       "code contains a character that is not ASCII, which not every compiler accepts. Write "
       "it in a comment or remove it."},
      // ---- code with hidden effects
      {Kind::rule, 2, RULE "# pragma GCC optimize(\"fast-math\")\n",
       "# pragma GCC optimize(\"         \")` changes how this file and later files are compiled. "
       "Remove it. Write a constant as `static constexpr`."},
      {Kind::codec, 2, CODEC "#define fma(a, b, c) (a * b + c)\n",
       "`#define fma(a, b, c) (a * b + c)` changes how this file and later files are compiled"},
      {Kind::rule, 2, RULE "#line 7 \"other.cuh\"\n", "changes how this file and later files"},
      {Kind::rule, 2, RULE "#undef KHD\n", "`#undef KHD` changes how this file and later files"},
      {Kind::rule, 2, RULE "%:define KHD\n", "`%:define KHD` changes how this file and"},
      {Kind::rule, 2, RULE "_Pragma(\"GCC ivdep\")\n", "`_Pragma` is specific to one compiler"},
      {Kind::rule, 2, RULE "[[gnu::optimize(\"fast-math\")]] KHD real f(real x) { return x; }\n",
       "the attribute `gnu::optimize(\"         \")` is specific to one compiler. Remove it."},
      {Kind::rule, 2, RULE "constexpr int \\u0435 = 1;\n",
       "a backslash in code is an escaped character or joins two lines, which hides what is "
       "compiled. Write the character itself, on one line."},
      {Kind::rule, 2, RULE "constexpr auto x = R\"(}\n)\";\n",
       "a raw string literal can hide the rest of the file. Write an ordinary one."},
      {Kind::rule, 2, RULE "extern \"C\" real f(real x);\n",
       "`extern` reaches beyond one element. Remove it."},
      {Kind::rule, 2, RULE "static real seen = 0;\n",
       "`static real seen = 0` outlives an element, and elements run in any order. Store it in "
       "Slots or AuxState, or make it `static constexpr`."},
      {Kind::rule, 2, RULE "template <class T>\ninline T\n  seen{0};\n", "outlives an element"},
      {Kind::rule, 4,
       RULE "struct Rule {\nKHD static real f(real x) {\nif (x > 0) static real y(0);\nreturn x;\n",
       "`if (x > 0) static real y(0)` outlives an element"},
      {Kind::rule, 3, RULE "struct Rule {\ninline static real seen[2];\n};\n}\n",
       "`inline static real seen[2]` outlives an element"},
      {Kind::rule, 2, RULE "[[maybe_unused]] static real seen = 0;\n", "outlives an element"},
      {Kind::rule, 3, RULE "struct Rule {\npublic: inline static real seen;\n};\n}\n",
       "outlives an element"},
      {Kind::rule, 2, RULE "struct State last;\n", "`struct State last` outlives an element"},
      {Kind::rule, 2, RULE "struct State last = {};\n", "outlives an element"},
      {Kind::rule, 2, RULE "decltype(0) last = 0;\n", "`decltype(0) last = 0` outlives"},
      {Kind::rule, 2, RULE "inline decltype((0)) last = 0;\n", "outlives an element"},
      {Kind::rule, 2, RULE "class State<real> last{0};\n", "outlives an element"},
      {Kind::rule, 2, RULE "union jitstep::State *last;\n", "outlives an element"},
      {Kind::rule, 2, RULE "enum Kind finality;\n", "outlives an element"},
      {Kind::rule, 2, RULE "alignas(16) real seen;\n", "outlives an element"},
      {Kind::rule, 3, RULE "struct State f() {\nstatic real y(0);\n", "outlives an element"},
      {Kind::rule, 2, RULE "KHD long double f(real x);\n",
       "`long double` differs between targets. Write `double`."},
      {Kind::codec, 3, CODEC "KHD double const\nlong f(real x);\n", "`long double` differs"},
      {Kind::rule, 2, RULE "constexpr double x = 1.5L;\n", "`long double` differs"},
      {Kind::rule, 2, RULE "constexpr double x = .5l;\n", "`long double` differs"},
      {Kind::rule, 2, RULE "constexpr double x = 1e-3L;\n", "`long double` differs"},
      {Kind::rule, 2, RULE "constexpr double x = 0x1p-3L;\n", "`long double` differs"},
      {Kind::rule, 2, RULE "[[nodiscard, gnu::cold]] real f();\n",
       "the attribute `gnu::cold` is specific to one compiler"},
      // ---- braces
      {Kind::rule, 3, RULE "struct Rule {\n  static void f() {\n};\n}\n",
       "the `{` of this line is not closed. Add its `}`."},
      {Kind::rule, 1, RULE "struct Rule {\n};\n", "the `{` of this line is not closed"},
      {Kind::rule, 3, RULE "}\n}\n", "this `}` has no matching `{`. Remove it, or add its `{`."},
      // ---- flags
      {Kind::rule, 4, FLAGS "7\n};\n", "expected a type, found `7`"},
      {Kind::rule, 4, FLAGS "int a = 1;\n};\n",
       "expected bool or a choice (a number belongs to `struct Hyper`, as in `double k = 2;`)"},
      {Kind::rule, 4, FLAGS "Shape a = 1;\n};\n",
       "expected bool or a choice declared as `enum class Shape { a, b };` on one line"},
      {Kind::codec, 2, CODEC "struct Options { real a = 1; };\nusing Code = uint8;\n",
       "expected bool, int or a choice declared as `enum class real"},
      {Kind::rule, 4, FLAGS "bool = true;\n};\n", "expected the flag's name, found `= true;`"},
      {Kind::rule, 4, FLAGS "bool a = 1;\n};\n", "expected true or false, found `1;`"},
      {Kind::rule, 4, FLAGS "Form a = old;\n};\n", "expected `Form`, found `old;`"},
      {Kind::rule, 4, FLAGS "Form a = Form.old;\n};\n", "expected `::`, found `.old;`"},
      {Kind::rule, 4, FLAGS "Form a = Form::1;\n};\n", "expected a choice, found `1;`"},
      {Kind::rule, 4, FLAGS "Form a = Form::new_one;\n};\n",
       "expected a choice of Form (old, right) instead of `new_one`"},
      {Kind::rule, 4, FLAGS "bool a = true;  // lifted: b\n};\n", "unknown name `b`"},
      {Kind::rule, 3, HYPER "double a = 1;  // at construction: b\n};\n",
       "`at construction: OPTION` is for a rule's Nullable numbers. Start free text with another"},
      {Kind::gradient, 3,
       "namespace jitstep::mine {\nstruct Hyper {\nNullable u = null;  // at construction: a\n};\n",
       "cannot read `at construction:` here"},
      {Kind::rule, 3, HYPER "List a = {};  // same in all groups\n};\n",
       "`same in all groups` is for a rule's numbers of the types double, Numbers and Nullable. "
       "Start"},
      {Kind::gradient, 3,
       "namespace jitstep::mine {\nstruct Hyper {\ndouble u = 1;  // same in all groups\n};\n",
       "cannot read `same in all groups` here"},
      {Kind::rule, 3, HYPER "Nullable a = null;  // at construction: +\n};\n",
       "expected an option, found `+`"},
      {Kind::rule, 3, HYPER "Nullable a = null;  // at construction: lr\n};\n",
       "there is no number `lr` among the options. `at construction:` needs the name of one."},
      {Kind::rule, 3,
       HYPER "Nullable a = null;  // >= 1; at construction: b\ndouble b = 2;  // >= 0\n};\n",
       "`a` must be >= 1, but `at construction:` copies `b`, which must be >= 0. Let the first "
       "range contain the second."},
      {Kind::rule, 3, HYPER "Nullable a = null;  // at construction: b\nNullable b = null;\n};\n",
       "there is no number `b` among the options"},
      // ---- slots
      {Kind::rule, 3, SLOTS "Signed m;  // codec: 8\n};\n", "expected a codec, found `8`"},
      {Kind::rule, 3, SLOTS "Signed m;  // codec: fp32(a)\n};\n", "expected nothing more"},
      {Kind::rule, 3, SLOTS "Signed m;  // codec fp32\n};\n",
       "cannot read `codec fp32`. Write `codec: CODEC`, for slots, or start free text with "},
      {Kind::rule, 3, MEMORY "Entry<tensor> m;  // codec: fp32\n};\n",
       "`codec: CODEC` is for slots"},
      {Kind::rule, 3, SLOTS "Unsigned m;\n};\n", "expected Signed or NonNegative, found `Unsig"},
      {Kind::rule, 3, SLOTS "Signed;\n};\n", "expected the slot's name, found `;`"},
      {Kind::rule, 3, SLOTS "Signed p;\n};\n",
       "`p` is the parameter or the gradient. Rename the slot."},
      {Kind::rule, 3, SLOTS "Signed m;  // torch: 1\n};\n", "expected torch's name, found `1`"},
      {Kind::rule, 3, SLOTS "Signed m;  // initial: +\n};\n", "expected an option, found `+`"},
      {Kind::rule, 3, SLOTS "Signed m;  // initial: a\n};\n",
       "there is no number `a` among the options. `initial:` needs a number or the name of one."},
      {Kind::rule, 3, SLOTS "Signed m;  // initial: -1e39\n};\n",
       "the initial value is too large for float32. Choose a smaller one."},
      {Kind::rule, 3, MEMORY "Entry<tensor> x;  // initial: 1e39\n};\n",
       "is too large for float32"},
      {Kind::rule, 3, MATRICES "Matrix<0, 0> m;  // initial: 1e39\n};\n",
       "is too large for float32"},
      {Kind::rule, 3, SLOTS "NonNegative v;  // initial: -1\n};\n",
       "a NonNegative slot has a negative initial value. Make it Signed, or start at 0."},
      {Kind::rule, 11,
       SLOTS
       "Signed a;\nSigned b;\nSigned c;\nSigned d;\nSigned e;\nSigned f;\nSigned h;\nSigned i;\n"
       "Signed j;\n};\n",
       "a file can declare at most 8 slots"},
      // ---- reductions
      {Kind::rule, 5, SUMS "Min<tensor, 1, A> a;\n};\n", "expected Sum<...> or Max<...>, found"},
      {Kind::rule, 5, SUMS "Sum<lines, 1, A> a;\n};\n",
       "expected a domain: all, tensor, first, rows, columns, matrices or axis<0> to axis<3>"},
      {Kind::rule, 5, SUMS "Sum<tensor, 1, 1> a;\n};\n", "expected the name of its coefficients"},
      {Kind::rule, 5, SUMS "Sum<tensor, 1, A>;\n};\n", "expected the reduction's name, found `;`"},
      {Kind::rule, 5, SUMS "Sum<tensor, 1, A, Rows> a;\n};\n", "expected `Entries`, found `Rows"},
      {Kind::rule, 5, SUMS "Sum<tensor, 1, A, Entries<rows, 1>> a;\n};\n",
       "expected the coefficients of an earlier reduction, found `1"},
      {Kind::rule, 5, SUMS "Sum<tensor, 1, A, Entries<rows, B>> a;\n};\n",
       "expected the domain and coefficients of an earlier reduction"},
      {Kind::rule, 6, SUMS "Sum<all, 1, A> a;\nSum<tensor, 1, B, Entries<all, A>> b;\n};\n",
       "expected a domain finer than `all`"},
      {Kind::rule, 6, SUMS "Sum<rows, 1, A> a;\nSum<columns, 1, B, Entries<rows, A>> b;\n};\n",
       "expected a domain whose entries lie inside those of columns"},
      {Kind::rule, 5, SUMS "Sum<rows, 1, A> a;  // after: 1\n};\n",
       "expected the name of an earlier reduction"},
      {Kind::rule, 5, SUMS "Sum<rows, 1, A> a;  // after: b\n};\n",
       "no earlier reduction is named `b`. Declare it before this one."},
      {Kind::rule, 5, SUMS "Sum<rows, 1, A> a;  // after: transformed\n};\n",
       "`a` is declared `after: transformed`, but the rule has no host transform. Add `host"},
      {Kind::rule, 3, SLOTS "Signed m;  // after: transformed\n};\n",
       "`m` is declared `after: transformed`, but the rule has no host transform. Add `host"},
      {Kind::rule, 3, SLOTS "Signed m;  // after: a\n};\n",
       "no host transform is named `a`. A slot comes after `transformed`, or another transform of "
       "the file."},
      {Kind::rule, 3, TRANSFORMS "float a;  // host: f\n};\n", "expected real"},
      {Kind::rule, 3, TRANSFORMS "real 1;  // host: f\n};\n",
       "expected the name of the transformed values"},
      {Kind::rule, 3, TRANSFORMS "real a;\n};\n",
       "the transform `a` names no function of the host. Add the note `host: NAME`."},
      {Kind::rule, 6, TRANSFORMS "real a;  // host: f\n};\nstruct Slots {\nSigned a;\n};\n",
       "`a` is also a transform. Rename one."},
      {Kind::rule, 1, "// host transform: f\n" TRANSFORMS "real a;  // host: f\n};\n",
       "a rule has more than one `host transform:`. Keep one, or declare several in a struct "
       "`Transforms`."},
      {Kind::rule, 3, MATRICES "Other<0, 0> a;\n};\n", "expected Matrix<rows, columns>"},
      {Kind::rule, 3, MATRICES "Matrix<0, 0> 1;\n};\n", "expected the matrix's name"},
      {Kind::rule, 3, MATRICES "Matrix<0, 0> a;\n};\n",
       "only host transforms use matrices, but the rule has none. Declare one in a struct "
       "`Transforms`."},
      {Kind::rule, 6, MEMORY "Entry<tensor> a;\n};\nstruct Matrices {\nMatrix<0, 0> a;\n};\n",
       "`a` names both `a` and `a`"},
      {Kind::rule, 6, SUMS "Sum<rows, 1, A> a;\nSum<tensor, 1, A> b;\n};\n",
       "`A` is the coefficients' struct of two reductions. Give each reduction its own."},
      {Kind::rule, 5, SUMS "Sum<rows, 1, C> a;\n};\n",
       "expected `struct C { real x; };` with the coefficients, in this file"},
      {Kind::rule, 2, RULE "struct A { Thing x; };\nstruct Reductions {\nSum<rows, 1, A> a;\n};\n",
       "expected a field of type real, double, float, int, bool, uint32, found `Thing x;`"},
      {Kind::rule, 2, RULE "struct A { real; };\nstruct Reductions {\nSum<rows, 1, A> a;\n};\n",
       "expected a field's name, found `;`"},
      {Kind::codec, 5,
       CODEC "using Code = uint8;\nstruct A { real x; };\nstruct Reductions {\n"
             "Sum<rows, 1, A> a;  // update_state\n};\n",
       "only a rule's reductions can have the notes `after:` and `update_state`. Remove the "
       "note."},
      {Kind::codec, 5,
       CODEC "using Code = uint8;\nstruct A { real x; };\nstruct Reductions {\n"
             "Sum<rows, 1, A> a;  // after: transformed\n};\n",
       "only a rule's reductions can have the notes `after:` and `update_state`"},
      // ---- memory
      {Kind::rule, 3, MEMORY "real x;\n};\n", "expected Entry<domain> or Entry<domain, double>"},
      {Kind::rule, 3, MEMORY "Entry<all> x;\n};\n",
       "shared state must have type double. Write `Entry<all, double>`."},
      {Kind::rule, 7,
       FLAGS "bool a = true;\n};\nstruct AuxState {\nEntry<all, double> x;  // if a\n};\n",
       "shared state cannot depend on flags, which may differ between groups. Remove `if`."},
      {Kind::codec, 4, CODEC "using Code = uint8;\nstruct AuxState {\nEntry<all, double> x;\n};\n",
       "a codec's auxiliary state belongs to one tensor. Use another domain than `all`."},
      {Kind::rule, 3, MEMORY "Entry<tensor, float> x;\n};\n", "expected real or double, found `fl"},
      {Kind::rule, 3, MEMORY "Entry<tensor>;\n};\n", "expected the field's name, found `;`"},
      {Kind::rule, 3, MEMORY "Entry<rows> x;\n};\n",
       "no reduction over `rows` writes this auxiliary state. Declare one, or use the domain "
       "`tensor` or `all` in a rule."},
      // ---- formats
      {Kind::codec, 1, CODEC,
       "expected `using Code = ...;`, one of uint8, uint16, real, Nibble, NoCode"},
      {Kind::codec, 2, CODEC "using Code = int;\n",
       "expected one of uint8, uint16, real, Nibble, NoCode, found `int`"},
      {Kind::codec, 2, CODEC "using Code = NoCode;\n",
       "a codec with NoCode stores its data in `struct AuxState`. Declare it."},
      {Kind::codec, 3,
       CODEC "struct Options { int block = 64; };  // power of two in [32, 64]\n"
             "using Code = NoCode;\nstruct Meta { float a; };\nstruct AuxState {\n};\n",
       "a codec with NoCode has no blocks. Remove Meta."},
      {Kind::codec, 3, CODEC "using Code = uint8;\nstruct Meta { float scale; };\n",
       "a codec with Meta needs the option `int block`. Declare it in Options."},
      {Kind::codec, 2, CODEC "struct Options { int block = 64; };\nusing Code = uint8;\n",
       "expected `int block = N;  // power of two in [a, b]`"},
      // ---- refusals and conditions
      {Kind::rule, 2, RULE "const int x = 1;  // refuse: true, no\n",
       "`// refuse:` needs its own line. Move it there."},
      {Kind::codec, 3, CODEC "using Code = uint8;\n// refuse: true, no\n",
       "only a rule can have `refuse:`. Remove this line."},
      {Kind::rule, 2, RULE "// refuse: true\n", "expected `// refuse: condition, sentence`"},
      {Kind::rule, 7, REFUSE "a != 0 1, x\n", "expected the end or an operator, found \"1\""},
      {Kind::rule, 7, REFUSE "a, x\n", "expected a condition, such as `x != 0`"},
      {Kind::rule, 7, REFUSE "a && a, x\n", "expected a condition next to &&, || or !"},
      {Kind::rule, 7, REFUSE "a < true, x\n", "expected numbers on both sides of <, <=, > or >="},
      {Kind::rule, 7, REFUSE "a == true, x\n", "expected two values of the same type"},
      {Kind::rule, 7, REFUSE "a == null, x\n", "expected an option that may be null next to null"},
      {Kind::rule, 7, REFUSE "(a > 0, x\n", "expected ), found its end"},
      {Kind::rule, 7, REFUSE "a > , x\n", "expected an option, a number, ! or (, found its end"},
      {Kind::rule, 7, REFUSE "1e999 > a, x\n", "expected a number, found \"1e999 > a\""},
      {Kind::rule, 7, REFUSE "n[2] > 0, x\n", "expected an element, n[0] to n[1]"},
      {Kind::rule, 7, REFUSE "size(8) > 0, x\n", "expected a dimension, size(-8) to size(7)"},
      {Kind::rule, 4,
       RULE "enum class Form { old };\nstruct Flags { Form f = Form::old; };\n"
            "// refuse: f == later, x\n",
       "expected one of the choices, old, found \"later\""},
  };
  return all;
}

std::string problem(Kind kind, const std::string& content) {
  try {
    read_manifest(content, "my/mine.cuh", kind);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// Conditions that are too long or too deeply nested to list in the table.
std::vector<std::string> long_conditions() {
  std::string chain = "true";
  for (int i = 0; i < 300; ++i) chain += " && true";
  const std::string start = RULE "// refuse: ";
  return {problem(Kind::rule, start + chain + ", x\n"),
          problem(Kind::rule, start + std::string(99, '(') + ", x\n")};
}

TEST(ManifestMistakes, ValidCodeThatLooksLikeAMistakeIsRead) {
  const std::string right =
      "// A class of rules \xe2\x80\x94 the default\n"
      "// Model: x, and Note: y. Modes of x\n"
      "// reuse: of x; loss: no\n"
      "// refuse nobody, as a sentence may go on.   class: Mine\n" RULE
      "struct Hyper {\n  double lr = 1;  // >= 0; torch.nn has it too; torch's own; iffy\n};\n"
      "struct\tScaled\t{ real x; };\n// signed: a sentence\n"
      "long f(double x); constexpr long kMany = 1L + 0xeL + 0xfel; constexpr double kL = 1e3;\n"
      "struct Rule {\n  KHD static void apply(auto& x, real y) { x = y; }\n"
      "  static constexpr char kBrace = '{';  // }\n"
      "  static real f(const auto& e) { return e.threadIdx + 1'000; }  /* { */\n"
      "  static_assert(true, \"caf\xc3\xa9 { __x static real \\u0435 #define\");\n"
      "  static constexpr int g2(auto d) { return decltype(d)::value; }\n"
      "  // #define fma, #pragma GCC optimize, \\u0435, static real seen; extern\n"
      "  [[nodiscard]] KHD static real\n  g(real x = 1) { const real twice = 2 * x; return twice; "
      "}\n"
      "  static constexpr real kHalf = real(0.5);  static const int kTwo = 2;\n"
      "  template <class T> KHD friend bool operator==(T, T) { return true; }\n"
      "};\n"
      "template <class T, int N = 2> inline constexpr int kMany = N;\n"
      "template <class T> concept Some = requires(T x) { x.y; };\n"
      "KHD inline real h(real x) { real y = x; for (int i = 0; i < 2; ++i) { y *= x; } return y; "
      "}\n"
      "struct After { real a, b[2]; int count = 0; };\nusing Alias = After;\n"
      "class Later;\nstruct [[nodiscard]] alignas(16) Last final : After { real c; };\n"
      "template <class T> struct Typed;\ntemplate <> struct Typed<real> final { real a; };\n"
      "enum class Kind : int { a, b };\nenum Kind2 : int;\nunion { int i; real r; };\n"
      "KHD inline struct After made(real x) { struct After made = {x}; return made; }\n"
      "struct jitstep::After made_here() { struct After last{0}; return last; }\n"
      "template <class T> struct Coded : Base<Ways{.block = 8, .of = {1, 2}}> {\n"
      "  static real f(real x) { return x; }\n};\n"
      "template <int N> requires (N < 4) struct Few { static real f(real x) { return x; } };\n"
      "}\n"
      "#if 0\n{\n#else\n#endif\n";
  const Manifest read = read_manifest(right, "my/mine.cuh", Kind::rule);
  EXPECT_EQ(read.class_name, "Mine");
  EXPECT_EQ(read.hyper[0].note, "torch.nn has it too; torch's own; iffy");
  EXPECT_TRUE(read.refusals.empty());
}

std::string noted(const std::string& note) {
  return HYPER "double a = 0.5;  // " + note + "\n};\n}\n";
}

// The reader rejects notes that look like ranges but are not in its grammar. Otherwise nothing would check such a
// range.
TEST(ManifestMistakes, AnInvalidRangeThrows) {
  for (const char* note :
       {"must be >= 0",     "0..1",           "0 .. 1",           ".5...1",
        "Between 0 and 1",  "at most 3",      "must be positive", "non-negative",
        "Positive",         "greater than 0", "above 0",          "up to 1",
        "from 0 to 1",      "0 to 1",         "[0, 1)",           "In [0, 1)",
        "half-open [0, 1)", "0 or more",      "\xe2\x89\xa5 0",   "an integer",
        "Integer",          "a power of two", "lr > 0",           "has to be < 1",
        "is within 0.1",    ">= 0 < 1 < 2"}) {
    const std::string found = problem(Kind::rule, noted(note));
    EXPECT_TRUE(found.starts_with("my/mine.cuh:3: ")) << note << ": " << found;
  }
  EXPECT_NE(problem(Kind::rule, noted("0..1 " + std::string(100000, '0'))), "no error");
}

TEST(ManifestMistakes, ProseAboutNumbersIsNotARange) {
  for (const char* note :
       {"0: off", "0 -> off", "the root of betas[1]", "counts from 1", "1 - beta",
        "positive numbers shrink it", "integer steps of the schedule", "by 2",
        "a number of Table 1, page 3", "in units of lr", "0.9 in the paper"})
    EXPECT_EQ(problem(Kind::rule, noted(note)), "no error") << note;
}

TEST(ManifestMistakes, ANoteMayContainTwoBounds) {
  const Constraint both =
      read_manifest(noted(">=0 <1"), "my/mine.cuh", Kind::rule).hyper[0].constraint;
  EXPECT_TRUE(both.accepts(0));
  EXPECT_FALSE(both.accepts(1));
  EXPECT_FALSE(both.accepts(-0.5));
}

std::string problem_of_name(const std::string& name) {
  try {
    read_manifest("namespace jitstep::rules::" + name + " {\n}\n", "my/" + name + ".cuh",
                  Kind::rule);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ManifestMistakes, AFileNameThatCannotBeANamespaceThrows) {
  for (const char* name : {"lion.v2", "register", "2fast", "my-rule", "co_await", "a__b", "_Lion",
                           "JITSTEP_x", "dim3", "std", "sign", "pow", "tensor"}) {
    const std::string found = problem_of_name(name);
    EXPECT_TRUE(found.starts_with(str_cat("my/", name, ".cuh:1: "))) << found;
    EXPECT_NE(found.find(str_cat("its namespace, and `", name, "` ")), found.npos) << found;
    EXPECT_TRUE(found.ends_with(" Rename both.")) << found;
  }
  for (const char* name : {"lion_v2", "registered", "_lion", "signum"})
    EXPECT_EQ(problem_of_name(name), "no error");
}

std::string problem_of_many_reductions() {
  std::string results, sums;
  for (int i = 0; i < 17; ++i) {
    results += str_cat("struct R", i, " { real x; };\n");
    sums += str_cat("Sum<tensor, 1, R", i, "> r", i, ";\n");
  }
  return problem(Kind::rule, RULE + results + "struct Reductions {\n" + sums + "};\n");
}

TEST(ManifestMistakes, SeventeenReductionsThrow) {
  EXPECT_EQ(
      problem_of_many_reductions().find("my/mine.cuh:36: a file can have at most 16 reductions"),
      0u)
      << problem_of_many_reductions();
}

// Names that these files declare. A namespace of the same name would hide them.
std::vector<std::string> kernel_language_names() {
  std::vector<std::string> names;
  for (const char* file :
       {"lang/contract", "lang/ordinary", "lang/port", "lang/port_gpu", "kernel/args"}) {
    std::ifstream lines(str_cat(JITSTEP_SOURCE_DIR "/templates/", file, ".cuh"));
    for (std::string line; std::getline(lines, line);) {
      std::smatch found;
      static const std::regex declared(
          "(?:struct|using|enum) (\\w+)[ ;:].*|inline constexpr \\w+ (\\w+)[ <].*|KHD (?:constexpr "
          ")?\\w+ "
          "(\\w+)\\(.*");
      if (!std::regex_match(line, found, declared)) continue;
      for (std::size_t i = 1; i < found.size(); ++i)
        if (found[i].matched) names.push_back(found[i]);
    }
  }
  return names;
}

TEST(ManifestMistakes, AFileNameFromTheKernelLanguageThrows) {
  const auto names = kernel_language_names();
  EXPECT_GT(names.size(), 60u);
  for (const std::string& name : names)
    EXPECT_TRUE(problem_of_name(name).ends_with("Rename both.")) << name;
}

TEST(ManifestMistakes, ErrorsNameFileLineAndFix) {
  for (const auto& [kind, line, content, message] : mistakes()) {
    const std::string found = problem(kind, content);
    EXPECT_TRUE(found.starts_with(str_cat("my/mine.cuh:", line, ": "))) << found << "\n" << content;
    EXPECT_NE(found.find(message), found.npos) << found << "\ninstead of: " << message;
    EXPECT_EQ(found.find('\n'), found.npos) << found;
  }
}

// ---- completeness of the table: the test reads the messages from the reader's own source --------

std::string source_of(const std::string& name) {
  std::ostringstream content;
  content << std::ifstream(str_cat(JITSTEP_SOURCE_DIR "/src/jit/manifest/", name, ".cpp")).rdbuf();
  return content.str();
}

// The string literals of at least 8 characters inside the parentheses that open at `at`.
std::vector<std::string> literals(const std::string& source, std::size_t at) {
  std::vector<std::string> found;
  int open = 0;
  do {
    if (source[at] == '\'') at += source[at + 1] == '\\' ? 3 : 2;  // a character, maybe a bracket
    if (source[at] == '(') ++open;
    if (source[at] == ')') --open;
    if (source[at] == '"') {
      std::size_t end = at + 1;
      while (end < source.size() && source[end] != '"') end += source[end] == '\\' ? 2 : 1;
      if (end - at > 8) found.push_back(source.substr(at + 1, end - at - 1));
      at = end;
    }
  } while (++at < source.size() && open > 0);
  return found;
}

TEST(ManifestMistakes, TheTableHasEveryMessage) {
  std::vector<std::string> provoked = long_conditions();
  for (const auto& mistake : mistakes()) provoked.push_back(problem(mistake.kind, mistake.content));
  provoked.push_back(problem_of_name("lion.v2"));
  provoked.push_back(problem_of_many_reductions());
  int messages = 0;
  for (const char* file :
       {"manifest_lines", "manifest_cursor", "manifest_notes", "manifest_fields",
        "manifest_formats", "manifest_reader", "manifest_header", "manifest_braces",
        "manifest_code", "manifest_names", "manifest_checks", "expression"}) {
    const std::string source = source_of(file);
    for (const std::string call : {"fail(", "identifier("}) {
      for (std::size_t at = 0; (at = source.find(call, at)) != source.npos; at += call.size()) {
        for (const auto& literal : literals(source, at + call.size() - 1)) {
          ++messages;
          EXPECT_TRUE(std::any_of(provoked.begin(), provoked.end(),
                                  [&](const auto& one) { return one.find(literal) != one.npos; }))
              << file << ".cpp has a message that no case provokes: " << literal;
        }
      }
    }
  }
  EXPECT_GT(messages, 80);
}

}  // namespace
}  // namespace jitstep::jit
