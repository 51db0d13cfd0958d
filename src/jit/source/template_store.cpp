#include "jitstep/jit/template_store.h"

#include <filesystem>
#include <set>

#include "jit/base/private_files.h"
#include "jit/source/embedded_templates.h"
#include "jit/source/preprocess.h"
#include "jit/source/template_data.h"

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
    : data_(new Data{std::move(folder), embedded}) {}
TemplateStore::~TemplateStore() = default;

void TemplateStore::add(const std::string& name, std::string content) {
  std::lock_guard lock(data_->mutex);
  data_->added[name] = std::move(content);
  ++data_->additions;
}

std::optional<std::string> TemplateStore::Data::find(const std::string& name) const {
  {
    std::lock_guard lock(mutex);
    if (auto found = added.find(name); found != added.end()) return found->second;
    if (auto found = files.find(name); found != files.end()) return found->second->content;
  }
  if (!folder.empty()) {
    if (auto content = read_text(fs::path(folder) / name)) return content;
  }
  return embedded ? find_embedded(name) : std::nullopt;
}

std::optional<std::string> TemplateStore::find(const std::string& name) const {
  return data_->find(name);
}

std::optional<std::string> TemplateStore::Data::add_loaded(const std::string& name,
                                                           LoadedFile file) {
  std::lock_guard one_at_a_time(loading);
  const auto present = find(name), holder = file_of(name);
  const bool own = holder && same_file(*holder, file.path);
  std::lock_guard lock(mutex);
  std::string version = name;
  for (int number = 2; files.contains(version); ++number) {
    if (files.at(version)->same_texts(file)) return newest[name] = version;
    version = name + "@" + std::to_string(number);
  }
  if (present && !own) return *present == file.content ? std::optional(name) : std::nullopt;
  files[version] = std::make_shared<const LoadedFile>(std::move(file));
  ++additions;
  return newest[name] = version;
}

std::optional<std::string> TemplateStore::Data::find_newest(const std::string& name) const {
  std::string version = name;
  {
    std::lock_guard lock(mutex);
    if (auto found = added.find(name); found != added.end()) return found->second;
    if (auto last = newest.find(name); last != newest.end()) version = last->second;
  }
  if (!folder.empty()) {
    if (auto content = read_text(fs::path(folder) / name)) return content;
  }
  return find(version);
}

std::shared_ptr<const LoadedFile> TemplateStore::Data::loaded(const std::string& name) const {
  std::lock_guard lock(mutex);
  const auto found = files.find(name);
  return found == files.end() ? nullptr : found->second;
}

std::optional<std::string> TemplateStore::Data::file_of(const std::string& name) const {
  {
    std::lock_guard lock(mutex);
    if (added.contains(name)) return {};
    if (const auto read = files.find(name); read != files.end()) return read->second->path;
  }
  const fs::path path = fs::path(folder) / name;
  std::error_code failure;
  if (folder.empty() || !fs::is_regular_file(path, failure)) return {};
  return path.string();
}

std::string TemplateStore::origin(const std::string& name) const {
  if (const auto path = data_->file_of(name)) return *path;
  {
    std::lock_guard lock(data_->mutex);
    if (data_->added.contains(name)) return "added at run time";
  }
  return data_->embedded && find_embedded(name) ? "embedded" : "";
}

std::vector<std::string> TemplateStore::list(std::string_view folder) const {
  std::set<std::string> names;
  if (data_->embedded) {
    for (const auto& [key, content] : embedded_templates()) names.emplace(key);
  }
  if (!data_->folder.empty()) list_folder(data_->folder, folder, names);
  {
    std::lock_guard lock(data_->mutex);
    for (const auto& [key, content] : data_->added) names.insert(key);
    for (const auto& [key, file] : data_->files)
      if (without_revision(key) == key) names.emplace(key);
  }
  std::erase_if(names, [&](const std::string& name) { return !name.starts_with(folder); });
  return {names.begin(), names.end()};
}

std::uint64_t TemplateStore::version() const {
  std::lock_guard lock(data_->mutex);
  return data_->additions;
}

}  // namespace jitstep::jit
