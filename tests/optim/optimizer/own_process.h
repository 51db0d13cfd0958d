// A process with its own cache folder for one test of tuning. Otherwise the next test would find its results.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/own_folder.h"

namespace jitstep::tests {

/// Runs a DISABLED_ test of this program in another process with these variables.
class OwnProcess {
 public:
  const std::string& folder() const { return folder_.path; }

  int run(const std::string& test, const std::string& variables = "") const {
    const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
    return std::system(("JITSTEP_CACHE_DIR=" + folder() + " " + variables + " " + self +
                        " --gtest_also_run_disabled_tests --gtest_filter=" + test + " > " +
                        folder() + "/out 2>&1 || { cat " + folder() + "/out; exit 1; }")
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
