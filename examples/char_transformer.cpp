// Trains a small transformer with several optimizers to predict the next character of a text. Uses the same seed and
// the same batches for each. Compares state memory, loss, accuracy, time per step and kernels.
#include <CLI/CLI.hpp>

#include "char_transformer/network.h"
#include "training/program.h"

namespace {

constexpr const char* kAbout =
    "Trains a small transformer on the characters of a text with several optimizers, and compares\n"
    "them. All start from the same seed and get the same batches. Exit status: 1 for a failure, "
    "or\n"
    "if the losses of torch's and jitstep's fp32 AdamW differ too much; 2 for an invalid flag.\n";

}  // namespace

int main(int argc, char** argv) {
  char_transformer::Flags flags;
  flags.batch = 32;
  flags.data = "/usr/share/games/fortunes";
  CLI::App app(kAbout, "char_transformer");
  training::add_flags(app, flags);
  app.add_option("--steps", flags.steps, "Number of steps (default: 400)")
      ->check(CLI::Range(1, 1000000));
  if (const auto exit_code = training::parse(app, argc, argv)) return *exit_code;
  return training::run_program("char_transformer", flags, [&](torch::Device device) {
    return char_transformer::make_problem(flags, device);
  });
}
