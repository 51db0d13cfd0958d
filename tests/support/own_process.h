// A process with its own cache folder for one test, such as a test of tuning. Otherwise the next test would find its
// results, or the default engine of an earlier one.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/own_folder.h"

namespace jitstep::tests {

/// Runs one DISABLED_ test of this program in another process with these variables. The result is 0 if it passed.
class OwnProcess {
 public:
  const std::string& folder() const { return folder_.path; }

  // GoogleTest also succeeds if no test has the name, or if the test skips itself.
  int run(const std::string& test, const std::string& variables = "") const {
    const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
    const std::string out = folder() + "/out";
    return std::system(("{ JITSTEP_CACHE_DIR=" + folder() + " " + variables + " " + self +
                        " --gtest_color=no --gtest_also_run_disabled_tests --gtest_filter=" + test +
                        " > " + out + " 2>&1 && grep -qF '[  PASSED  ] 1 test.' " + out +
                        "; } || { cat " + out + "; exit 1; }")
                           .c_str());
  }
  std::vector<nlohmann::json> records() const {
    std::vector<nlohmann::json> all;
    std::ifstream file(folder() + "/tuning.jsonl");
    for (std::string line; std::getline(file, line);) all.push_back(nlohmann::json::parse(line));
    return all;
  }

 private:
  OwnFolder folder_;
};

}  // namespace jitstep::tests
