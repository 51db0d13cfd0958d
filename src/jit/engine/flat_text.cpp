#include "jit/engine/flat_text.h"

#include <mutex>
#include <utility>

#include "jit/base/digest.h"
#include "jit/base/text.h"
#include "jit/engine/kernel_dump.h"
#include "jit/source/flatten.h"
#include "jit/source/source_map.h"
#include "jitstep/jit/log.h"

namespace jitstep::jit {

CompileError in_users_paths(const CompileError& error, const FlatText& flat,
                            const TemplateStore& templates) {
  ShownNames shown;
  for (const std::string& name : file_names(flat.text)) {
    if (std::string path = templates.shown_name(name); path != name) shown[name] = std::move(path);
  }
  return CompileError(with_shown_names(error.what(), shown), with_shown_names(error.log(), shown),
                      with_shown_names(error.source(), shown));
}

FlatPointer FlatTexts::get(const std::string& unit_text, const std::string& name) {
  const std::uint64_t version = templates_.version();
  const std::string id = name + '\0' + unit_text;
  {
    std::lock_guard lock(mutex_);
    if (version != version_) known_.clear();
    version_ = version;
    if (const auto known = known_.find(id); known != known_.end()) return known->second;
  }
  auto made = std::make_shared<FlatText>();
  made->text = flatten(unit_text, name, templates_, made->included);
  made->digest = code_digest(made->text);
  made->unit = unit_text;
  override_with_edited(*made, name);
  made->text_digest = sha256_hex(made->text);
  std::lock_guard lock(mutex_);
  if (version == version_) known_[id] = made;
  return made;
}

void FlatTexts::override_with_edited(FlatText& flat, const std::string& name) const {
  auto edited = overriding_text(settings_.override_folder, name, flat.text, flat.digest);
  if (!edited) return;
  warn(settings_.log, text("JITSTEP_OVERRIDE: ", name, " is the edited text in ",
                           folder_of_text(name, flat.digest), ", not its own"));
  flat.text = std::move(*edited);
  flat.digest = code_digest(flat.text);
  flat.is_overridden = true;
}

}  // namespace jitstep::jit
