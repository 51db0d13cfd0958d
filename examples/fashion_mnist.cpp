// Trains one network on Fashion-MNIST with several optimizers. Uses the same seed and the same data order for each.
// Compares state memory, loss, accuracy, time per step and kernels.
#include <CLI/CLI.hpp>

#include "fashion_mnist/network.h"
#include "training/program.h"

namespace {

constexpr const char* kAbout =
    "Trains one network on Fashion-MNIST with several optimizers, and compares them. All start\n"
    "from the same seed and get the same data order. Exit status: 1 for a failure, or if the\n"
    "losses of torch's and jitstep's fp32 AdamW differ too much; 2 for an invalid flag.\n";

}  // namespace

int main(int argc, char** argv) {
  fashion_mnist::Flags flags;
  flags.batch = 128;
  flags.data = "/usr/share/datasets/fashion-mnist";
  CLI::App app(kAbout, "fashion_mnist");
  training::add_flags(app, flags);
  app.add_option("--epochs", flags.epochs, "Number of epochs (default: 1)")
      ->check(CLI::Range(1, 1000));
  app.add_option("--limit", flags.limit, "Use only the first N training images (default: all)")
      ->check(CLI::Range(1, 60000));
  if (const auto exit_code = training::parse(app, argc, argv)) return *exit_code;
  return training::run_program("fashion_mnist", flags, [&](torch::Device device) {
    return fashion_mnist::make_problem(flags, device);
  });
}
