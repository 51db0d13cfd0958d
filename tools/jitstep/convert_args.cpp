#include "convert_args.h"

#include "in_range.h"

namespace jitstep::tool {
namespace {

constexpr const char* kFooter =
    "The new file has the bits that an optimizer with these formats saves after it loaded the old\n"
    "file. Formats without a flag and option values do not change. jitstep writes the file\n"
    "completely or not at all. It compiles the conversion kernels once, into the cache.\n"
    "Conversion needs memory for the old and the new state.\n\n"
    "Examples:\n"
    "  jitstep convert opt.pt small.pt --state int8\n"
    "  jitstep convert opt.pt opt.pt --overwrite --state m=int4 --state v=int8\n"
    "  jitstep convert torch_adam.pt opt.pt --rule adam --state bf16\n"
    "  jitstep convert folder opt.pt\n"
    "  jitstep convert opt.pt folder --ranks 8";

}  // namespace

void add_convert_args(CLI::App& command, ConvertArgs& args) {
  command.footer(kFooter);
  command
      .add_option("from", args.from, "Checkpoint of an optimizer: a file, or a folder with parts")
      ->type_name("PATH")
      ->check(not_empty_argument())
      ->required();
  command.add_option("to", args.to, "New checkpoint")
      ->type_name("PATH")
      ->check(not_empty_argument())
      ->required();
  add_state_args(command, args.formats);
  command
      .add_option("--weights", args.formats.weights,
                  "Weight format without residual: native or stochastic")
      ->type_name("FORMAT")
      ->check(not_empty());
  command
      .add_option(
          "--min-quantized-size", args.min_quantized_size,
          "Smaller parameters use fp32 instead of a format with scales of blocks, rows or columns")
      ->type_name("N")
      ->check(in_range(0));
  command
      .add_option("--rule", args.formats.rule,
                  "Optimizer of a checkpoint that names none, such as one of torch")
      ->type_name("RULE")
      ->check(not_empty());
  command.add_option("--load", args.load, "File of a rule or codec that the checkpoint names")
      ->type_name("FILE")
      ->allow_extra_args(false)
      ->check(not_empty());
  command
      .add_option("--ranks", args.ranks,
                  "Write a folder with a part for each of so many ranks, instead of a file")
      ->type_name("N")
      ->check(in_range(1, 65536));
  command.add_flag("--overwrite", args.overwrite, "Replace an existing checkpoint, also the input");
  command.add_flag("--json", args.json, "Print JSON");
}

}  // namespace jitstep::tool
