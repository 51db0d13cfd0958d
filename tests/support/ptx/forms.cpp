#include "support/ptx/forms.h"

namespace jitstep::ptx {

const Forms& forms() {
  static const Forms all = [] {
    Forms made;
    add_integer_forms(made);
    add_real_forms(made);
    add_comparisons(made);
    add_conversions(made);
    add_moves(made);
    add_memory_forms(made);
    add_control_forms(made);
    return made;
  }();
  return all;
}

}  // namespace jitstep::ptx
