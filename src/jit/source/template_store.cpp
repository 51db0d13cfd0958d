#include "jitstep/jit/template_store.h"

#include <filesystem>
#include <set>

#include "jit/base/fork_guard.h"
#include "jit/base/private_files.h"
#include "jit/source/embedded_templates.h"
#include "jit/source/preprocess.h"

namespace jitstep::jit {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> read_text(const fs::path& path) {
  std::error_code failure;
  if (!fs::is_regular_file(path, failure)) return {};
  return read_code_file(path.string());
}

std::optional<std::string> find_embedded(std::string_view name) {
  for (const auto& [key, content] : embedded_templates()) {
    if (key == name) return std::string(content);
  }
  return {};
}

void list_folder(const fs::path& root, std::string_view below, std::set<std::string>& names) {
  std::error_code failure;
  fs::recursive_directory_iterator entry(root / below, failure);
  for (; !failure && entry != fs::recursive_directory_iterator(); entry.increment(failure)) {
    if (entry->path().extension() != ".cuh") continue;
    names.insert(entry->path().lexically_relative(root).generic_string());
  }
}

bool same_file(const std::string& a, const std::string& b) {
  std::error_code failure;
  return a == b || fs::equivalent(a, b, failure);
}

}  // namespace

TemplateStore::TemplateStore(std::string folder, bool embedded)
    : folder_(std::move(folder)), embedded_(embedded), mutex_(std::make_unique<ForkSafeMutex>()) {}
TemplateStore::~TemplateStore() = default;

void TemplateStore::add(const std::string& name, std::string content) {
  std::lock_guard lock(*mutex_);
  added_[name] = std::move(content);
  ++version_;
}

std::optional<std::string> TemplateStore::find(const std::string& name) const {
  {
    std::lock_guard lock(*mutex_);
    if (auto found = added_.find(name); found != added_.end()) return found->second;
    if (auto found = loaded_files_.find(name); found != loaded_files_.end())
      return found->second->content;
  }
  if (!folder_.empty()) {
    if (auto content = read_text(fs::path(folder_) / name)) return content;
  }
  return embedded_ ? find_embedded(name) : std::nullopt;
}

std::optional<std::string> TemplateStore::add_loaded(const std::string& name, LoadedFile file) {
  const auto present = find(name), holder = file_of(name);
  const bool own = holder && same_file(*holder, file.path);
  std::lock_guard lock(*mutex_);
  std::string version = name;
  for (int number = 2; loaded_files_.contains(version); ++number) {
    if (loaded_files_.at(version)->same_texts(file)) return newest_[name] = version;
    version = name + "@" + std::to_string(number);
  }
  if (present && !own) return *present == file.content ? std::optional(name) : std::nullopt;
  loaded_files_[version] = std::make_shared<const LoadedFile>(std::move(file));
  ++version_;
  return newest_[name] = version;
}

std::optional<std::string> TemplateStore::find_newest(const std::string& name) const {
  std::string version = name;
  {
    std::lock_guard lock(*mutex_);
    if (auto found = added_.find(name); found != added_.end()) return found->second;
    if (auto last = newest_.find(name); last != newest_.end()) version = last->second;
  }
  if (!folder_.empty()) {
    if (auto content = read_text(fs::path(folder_) / name)) return content;
  }
  return find(version);
}

std::shared_ptr<const LoadedFile> TemplateStore::loaded(const std::string& name) const {
  std::lock_guard lock(*mutex_);
  const auto found = loaded_files_.find(name);
  return found == loaded_files_.end() ? nullptr : found->second;
}

// The user's file that a text is, if it is one.
std::optional<std::string> TemplateStore::file_of(const std::string& name) const {
  {
    std::lock_guard lock(*mutex_);
    if (added_.contains(name)) return {};
    if (const auto read = loaded_files_.find(name); read != loaded_files_.end())
      return read->second->path;
  }
  const fs::path path = fs::path(folder_) / name;
  std::error_code failure;
  if (folder_.empty() || !fs::is_regular_file(path, failure)) return {};
  return path.string();
}

std::string TemplateStore::origin(const std::string& name) const {
  if (const auto path = file_of(name)) return *path;
  {
    std::lock_guard lock(*mutex_);
    if (added_.contains(name)) return "added at run time";
  }
  return embedded_ && find_embedded(name) ? "embedded" : "";
}

std::string TemplateStore::shown_name(const std::string& name) const {
  return file_of(name).value_or(name);
}

std::vector<std::string> TemplateStore::list(std::string_view folder) const {
  std::set<std::string> names;
  if (embedded_) {
    for (const auto& [key, content] : embedded_templates()) names.emplace(key);
  }
  if (!folder_.empty()) list_folder(folder_, folder, names);
  {
    std::lock_guard lock(*mutex_);
    for (const auto& [key, content] : added_) names.insert(key);
    for (const auto& [key, file] : loaded_files_)
      if (without_version(key) == key) names.emplace(key);
  }
  std::erase_if(names, [&](const std::string& name) { return !name.starts_with(folder); });
  return {names.begin(), names.end()};
}

std::uint64_t TemplateStore::version() const {
  std::lock_guard lock(*mutex_);
  return version_;
}

}  // namespace jitstep::jit
