// Trains a small transformer to predict the next character of a text with several optimizers, from the same seed and with
// the same batches, and compares them: state memory, loss, accuracy, time per step, kernels.
#include <CLI/CLI.hpp>

#include "char_transformer/network.h"
#include "training/program.h"

namespace {

constexpr const char* kAbout =
    "Trains a small transformer on text, character by character, with several optimizers, from "
    "the\n"
    "same seed and with the same batches, and compares them. Exit code 1 when something fails or "
    "when\n"
    "the losses of torch's and jitstep's fp32 AdamW differ too much, 2 for a bad flag.\n";

}  // namespace

int main(int argc, char** argv) {
  char_transformer::Flags flags;
  flags.batch = 32;
  flags.data = "/usr/share/games/fortunes";
  CLI::App app(kAbout, "char_transformer");
  training::add_flags(app, flags);
  app.add_option("--steps", flags.steps, "Steps; default 400")->check(CLI::Range(1, 1000000));
  if (const auto exit_code = training::parse(app, argc, argv)) return *exit_code;
  return training::run_program("char_transformer", flags, [&](torch::Device device) {
    return char_transformer::make_problem(flags, device);
  });
}
