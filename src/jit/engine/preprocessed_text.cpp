#include "jit/engine/preprocessed_text.h"

#include <mutex>
#include <utility>

#include "jit/base/digest.h"
#include "jit/base/log.h"
#include "jit/base/text.h"
#include "jit/engine/kernel_dump.h"
#include "jit/source/preprocess.h"
#include "jit/source/source_map.h"
#include "jit/source/template_data.h"

namespace jitstep::jit {

CompileError in_users_paths(const CompileError& error, const PreprocessedSource& preprocessed,
                            const TemplateStore& templates) {
  ShownNames shown;
  for (const std::string& name : file_names(preprocessed.text)) {
    if (std::string path = templates.data().shown_name(name); path != name)
      shown[name] = std::move(path);
  }
  return CompileError(with_shown_names(error.what(), shown), with_shown_names(error.log(), shown),
                      with_shown_names(error.source(), shown));
}

PreprocessedPointer PreprocessedSources::get(const std::string& translation_unit,
                                             const std::string& name) {
  const std::uint64_t version = templates_.version();
  const std::string id = name + '\0' + translation_unit;
  {
    std::lock_guard lock(mutex_);
    if (version != version_) known_.clear();
    version_ = version;
    if (const auto known = known_.find(id); known != known_.end()) return known->second;
  }
  auto result = std::make_shared<PreprocessedSource>();
  result->text = preprocess(translation_unit, name, templates_, result->included);
  result->token_digest = code_digest(result->text);
  result->unit = translation_unit;
  override_with_edited(*result, name);
  result->full_text_digest = sha256_hex(result->text);
  std::lock_guard lock(mutex_);
  if (version == version_) known_[id] = result;
  return result;
}

void PreprocessedSources::override_with_edited(PreprocessedSource& preprocessed,
                                               const std::string& name) const {
  auto edited = overriding_text(settings_.override_folder, name, preprocessed.text,
                                preprocessed.token_digest);
  if (!edited) return;
  warn(settings_.log, str_cat("JITSTEP_OVERRIDE: ", name, " uses the edited source in ",
                              folder_of_text(name, preprocessed.token_digest)));
  preprocessed.text = std::move(*edited);
  preprocessed.token_digest = code_digest(preprocessed.text);
  preprocessed.is_overridden = true;
}

}  // namespace jitstep::jit
