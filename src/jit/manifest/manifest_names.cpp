#include "jit/manifest/manifest_names.h"

namespace jitstep::jit {

void refuse_in_archives(const std::string& name, const Place& place) {
  if (const auto problem = archive_problem(name); !problem.empty())
    place.fail("`" + name + "` " + problem + "; rename it");
}

}  // namespace jitstep::jit
