#include "program.h"

#include <c10/util/Exception.h>

#include <exception>
#include <iostream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include "optimizer_choice.h"
#include "optimizers.h"
#include "report.h"
#include "training.h"

namespace training {
namespace {

// Builds all optimizers before the first one trains, so that an invalid option or codec is an error at once and not
// minutes later.
std::vector<std::unique_ptr<Training>> build_all(const Flags& flags, const Problem& problem) {
  std::vector<std::unique_ptr<Training>> trainings;
  for (const OptimizerChoice& choice : choose_optimizers(flags)) {
    trainings.push_back(std::make_unique<Training>(choice, problem));
  }
  return trainings;
}

int train_and_report(Flags& flags, const ProblemMaker& make_problem) {
  prepare_out(flags.out);
  load_rules(flags.rules);
  const torch::Device device = open_device(flags);
  const Problem problem = make_problem(device);
  const auto trainings = build_all(flags, problem);
  std::cout << problem.description << "; device: " << flags.device
            << ", CPU threads: " << flags.threads << std::endl;
  std::vector<Run> runs;
  for (const auto& training : trainings) runs.push_back(training->run());
  const std::optional<LossDifference> difference = compare_losses(runs);
  const std::filesystem::path json = write_json(flags, problem, runs, difference);
  std::cout << "\n" << table(runs);
  if (difference) std::cout << "\n" << sentence(*difference);
  std::cout << "\nWrote " << json.string() << ". tools/plot_losses.py plots it.\n";
  return difference && !difference->within_bounds() ? 1 : 0;
}

}  // namespace

int run_program(const std::string& program, Flags flags, const ProblemMaker& make_problem) {
  try {
    return train_and_report(flags, make_problem);
  } catch (const std::invalid_argument& error) {
    std::cerr << program << ": " << error.what() << "\n";
    return 2;  // as parse() returns for an invalid flag
  } catch (const c10::Error& error) {
    std::cerr << program << ": " << error.what_without_backtrace() << "\n";
  } catch (const std::exception& error) {
    std::cerr << program << ": " << error.what() << "\n";
  }
  return 1;
}

}  // namespace training
