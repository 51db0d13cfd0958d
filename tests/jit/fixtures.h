// Helpers that the tests of src/jit share: temporary folders, settings, warnings and NVRTC.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "jit/base/scratch.h"
#include "jit/base/text.h"
#include "jit/compiler/nvrtc_library.h"
#include "jitstep/jit/compiler.h"
#include "jitstep/jit/engine.h"
#include "jitstep/jit/settings.h"

namespace jitstep::jit::testing {

namespace fs = std::filesystem;

/// An empty folder that is removed after the test.
class TemporaryFolder {
 public:
  TemporaryFolder() : folder_({fs::temp_directory_path().string()}) {}
  const std::string& path() const { return folder_.path(); }
  std::string operator/(const std::string& name) const { return path() + "/" + name; }

 private:
  PrivateFolder folder_;
};

/// Settings with the compiler of the tests and a cache folder, independent of the environment's cache.
inline Settings settings_with_cache(const std::string& cache_dir) {
  Settings settings = Settings::from_environment();
  settings.cache_dir = cache_dir;
  settings.cache_readonly.clear();
  settings.templates.clear();
  return settings;
}

/// The same, with the compiler on PATH even if JITSTEP_CXX names one, which may add options.
inline Settings settings_of_this_computer(const std::string& cache_dir) {
  Settings settings = settings_with_cache(cache_dir);
  settings.cxx.clear();
  return settings;
}

/// Settings that find NVRTC where the project's scripts install it, or where JITSTEP_NVRTC points.
inline Settings settings_with_nvrtc(const std::string& cache_dir) {
  Settings settings = settings_with_cache(cache_dir);
#ifdef JITSTEP_SOURCE_DIR
  const fs::path lib = fs::path(JITSTEP_SOURCE_DIR) / ".deps/venv/lib";
  std::error_code failure;
  for (const auto& python : fs::directory_iterator(lib, failure)) {
    settings.nvrtc_search.push_back((python.path() / "site-packages").string());
  }
#endif
  return settings;
}

/// Collects warnings during its lifetime.
class WarningCollector {
 public:
  WarningCollector() {
    before_ = set_warning_handler([this](const std::string& message) {
      std::lock_guard lock(mutex_);
      messages_.push_back(message);
    });
  }
  ~WarningCollector() { set_warning_handler(before_); }

  std::vector<std::string> messages() const {
    std::lock_guard lock(mutex_);
    return messages_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> messages_;
  WarningHandler before_;
};

inline void write_file(const std::string& path, const std::string& content) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << content;
  // jitstep rejects code that others may write to, so the mode must not depend on the umask.
  fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write);
}

/// The files in a folder and its subfolders whose names have this ending.
inline std::vector<std::string> files_below(const std::string& folder, const std::string& end) {
  std::vector<std::string> files;
  std::error_code failure;
  for (const auto& entry : fs::recursive_directory_iterator(folder, failure)) {
    if (entry.is_regular_file() && entry.path().string().ends_with(end))
      files.push_back(entry.path().string());
  }
  return files;
}
/// All files except remembered compiler identities.
inline std::vector<std::string> files_below(const std::string& folder) {
  std::vector<std::string> files = files_below(folder, "");
  std::erase_if(files, [](const std::string& file) { return file.ends_with(".compiler"); });
  return files;
}

/// The message of the Error that a call throws.
template <class Thrown = Error, class Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const Thrown& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

/// A unit with one entry that adds `term` to args[i].
inline std::string adding_unit(const std::string& term) {
  return str_cat(
      "extern \"C\" __attribute__((visibility(\"default\")))\n"
      "void add(const void* args, long long begin, long long end) {\n"
      "  float* x = *static_cast<float* const*>(args);\n"
      "  for (long long i = begin; i < end; ++i) x[i] += ",
      term, ";\n}\n");
}

/// Runs the entry of adding_unit on one number.
inline float add_to(const Kernel& kernel, float x) {
  float values[3] = {0, x, 0};
  float* pointer = values;
  kernel.cpu("add")(&pointer, 1, 2);
  EXPECT_EQ(values[0], 0);
  EXPECT_EQ(values[2], 0);
  return values[1];
}

}  // namespace jitstep::jit::testing
