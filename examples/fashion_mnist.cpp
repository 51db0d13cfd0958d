// Trains one network on Fashion-MNIST with several optimizers, from the same seed and in the same
// data order, and compares them: state memory, loss, accuracy, time per step, kernels.
#include <c10/util/Exception.h>

#include <exception>
#include <iostream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include "fashion_mnist/data_set.h"
#include "fashion_mnist/flags.h"
#include "fashion_mnist/optimizer_choice.h"
#include "fashion_mnist/optimizers.h"
#include "fashion_mnist/report.h"
#include "fashion_mnist/training.h"

namespace {

using namespace fashion_mnist;

// Every optimizer is built before the first one trains, so that a wrong option or codec is
// reported at once and not minutes later.
std::vector<std::unique_ptr<Training>> build_all(const Flags& flags, torch::Device device) {
  load_rules(flags.rules);
  std::vector<std::unique_ptr<Training>> trainings;
  for (const OptimizerChoice& choice : choose_optimizers(flags)) {
    trainings.push_back(std::make_unique<Training>(choice, flags, device));
  }
  return trainings;
}

std::vector<Run> train_all(Flags& flags) {
  const torch::Device device = open_device(flags);
  const auto trainings = build_all(flags, device);
  const DataSet data = load_data_set(flags.data);
  const Examples train = to_examples(data.train, flags.limit, device);
  const Examples test = to_examples(data.test, 0, device);
  std::cout << describe(train, test, flags) << std::endl;
  std::vector<Run> runs;
  for (const auto& training : trainings) runs.push_back(training->run(train, test));
  return runs;
}

int run_program(Flags flags) {
  prepare_out(flags.out);
  const std::vector<Run> runs = train_all(flags);
  const std::optional<LossDifference> difference = compare_losses(runs);
  const std::filesystem::path json = write_json(flags, runs, difference);
  std::cout << "\n" << table(runs);
  if (difference) std::cout << "\n" << sentence(*difference);
  std::cout << "\nWrote " << json.string() << "; tools/plot_losses.py draws it.\n";
  return difference && !difference->within_bounds() ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  if (const std::optional<int> exit_code = parse_flags(argc, argv, flags)) return *exit_code;
  try {
    return run_program(flags);
  } catch (const std::invalid_argument& error) {
    std::cerr << "fashion_mnist: " << error.what() << "\n";
    return 2;  // as for the flags that parse_flags refuses
  } catch (const c10::Error& error) {
    std::cerr << "fashion_mnist: " << error.what_without_backtrace() << "\n";
  } catch (const std::exception& error) {
    std::cerr << "fashion_mnist: " << error.what() << "\n";
  }
  return 1;
}
