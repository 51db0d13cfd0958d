#include "jitstep/jit/template_store.h"

#include <filesystem>
#include <set>

#include "jit/base/fork_guard.h"
#include "jit/base/private_files.h"
#include "jit/source/embedded_templates.h"

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

}  // namespace

TemplateStore::TemplateStore(std::string folder, bool embedded)
    : folder_(std::move(folder)), embedded_(embedded), mutex_(std::make_unique<ForkSafeMutex>()) {}
TemplateStore::~TemplateStore() = default;

void TemplateStore::add(const std::string& name, std::string content) {
  std::lock_guard lock(*mutex_);
  added_[name] = std::move(content);
  paths_.erase(name);
  ++version_;
}

std::optional<std::string> TemplateStore::find(const std::string& name) const {
  {
    std::lock_guard lock(*mutex_);
    if (auto found = added_.find(name); found != added_.end()) return found->second;
  }
  if (!folder_.empty()) {
    if (auto content = read_text(fs::path(folder_) / name)) return content;
  }
  return embedded_ ? find_embedded(name) : std::nullopt;
}

std::string TemplateStore::find_or_add(const std::string& name, const std::string& content,
                                       const std::string& path) {
  if (auto present = find(name)) return *present;
  std::lock_guard lock(*mutex_);
  const auto [place, added] = added_.try_emplace(name, content);
  if (added) {
    paths_.insert_or_assign(name, path);
    ++version_;
  }
  return place->second;
}

// The user's file that a text is, if it is one.
std::optional<std::string> TemplateStore::file_of(const std::string& name) const {
  {
    std::lock_guard lock(*mutex_);
    if (const auto read = paths_.find(name); read != paths_.end()) return read->second;
    if (added_.contains(name)) return {};
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
  }
  std::erase_if(names, [&](const std::string& name) { return !name.starts_with(folder); });
  return {names.begin(), names.end()};
}

std::uint64_t TemplateStore::version() const {
  std::lock_guard lock(*mutex_);
  return version_;
}

}  // namespace jitstep::jit
