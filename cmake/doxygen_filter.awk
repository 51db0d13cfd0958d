# Translates this project's comments for doxygen. The first comment of a header describes the file. A comment above
# consecutive declarations describes each of them. A comment at the end of a line describes that line. Overrides and
# defaulted functions need no comment.
function indent_of(line) { match(line, /^ */); return RLENGTH }
function is_comment(line) { return line ~ /^ *\/\// && line !~ /^ *\/\/ ----/ }

NR == 1 && is_comment($0) { print "/// @file"; in_file = 1 }
in_file && is_comment($0) { sub(/\/\//, "///"); print; next }
{ in_file = 0 }

# A comment before declarations.
is_comment($0) {
  sub(/\/\/\/?/, "///")
  if (!in_doc) doc = ""
  in_doc = 1; doc = doc $0 "\n"; doc_indent = indent_of($0)
  print; next
}
# Consecutive declarations end at an empty line or a scope. A declaration ends with a semicolon or the brace of its body.
/^ *$/ || /^ *(\/\/ ----|public:|private:|protected:)/ || (depth == 0 && (/^ *}/ || indent_of($0) < doc_indent)) {
  doc = ""; in_doc = 0; open = 0
  print; next
}
{
  if (!open && !in_doc && doc != "" && indent_of($0) == doc_indent) printf "%s", doc
  else if (!open && !in_doc && / override/) print "/// See the base class."
  else if (!open && !in_doc && /= default;/) print "/// Defaulted."
  in_doc = 0
  line = $0
  sub(/ *\/\/.*/, "", line)
  scope = line ~ /^ *(class|struct|enum|namespace|template|extern)/
  if (!scope) depth += gsub(/{/, "{", line) - gsub(/}/, "}", line)
  open = !scope && line !~ /^#/ && (depth > 0 || line !~ /[;}] *$/)
  if (match($0, /[;,{] +\/\/ /)) sub(/ \/\/ /, " ///< ")
  print
}
