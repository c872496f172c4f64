// Facts about a bundled candidate, read from its syntax tree and never by running it.

import { parse } from "acorn";

const MAX_TEXTS = 50;
const MAX_TEXT_CHARS = 80;
const MAX_NAMES = 200;
const MAX_HOPS = 40;
const UNKNOWN = { component: { possible: true }, facts: null };

// What shims.mjs calls an import: the package, a dollar sign, the name in it.
const SHIM = /^__bg_\w+\$/;
const ELEMENT = /^__bg_(react_jsx_runtime\$jsxs?|react_jsx_dev_runtime\$jsxDEV|react\$createElement)\d*$/;
const FRAGMENT = /^__bg_\w+\$Fragment\d*$/;
const REACT_OBJECT = /^__bg_react(_dom)?\$default\d*$/;
const WRAPPER = /^__bg_react\$(memo|forwardRef)\d*$/;
const ANONYMOUS = /^candidate_default\d*$/;

/** Every node, without recursion: a chain of 100,000 terms is a deep tree. */
function* walk(root, into = () => true) {
  const stack = [root];
  while (stack.length) {
    const node = stack.pop();
    yield node;
    if (node !== root && !into(node)) continue;
    const children = [];
    for (const key in node) {
      const value = node[key];
      if (Array.isArray(value)) for (const each of value) each?.type && children.push(each);
      else if (value?.type) children.push(value);
    }
    while (children.length) stack.push(children.pop());
  }
}

const isFunction = (node) => /^(Arrow)?Function(Expression|Declaration)$/.test(node?.type);
const isClass = (node) => node?.type === "ClassExpression" || node?.type === "ClassDeclaration";

/** `memo`, `React.memo` and the like: the name that the shim gave it, or null. */
function shimName(callee) {
  if (callee.type === "Identifier") return callee.name;
  const member = callee.type === "MemberExpression" && !callee.computed && callee.object.type === "Identifier";
  return member && REACT_OBJECT.test(callee.object.name) ? `__bg_react$${callee.property.name}` : null;
}

const isCallOf = (node, pattern) => node?.type === "CallExpression" && pattern.test(shimName(node.callee) ?? "");
const isElement = (node) => isCallOf(node, ELEMENT);

/** Names to what they were declared as; names that are assigned later are left out. */
function declarations(root) {
  const found = new Map();
  const assigned = new Set();
  for (const node of walk(root)) {
    if (node.type === "VariableDeclarator" && node.id.type === "Identifier") {
      if (!found.has(node.id.name)) found.set(node.id.name, node.init);
    } else if ((isFunction(node) || isClass(node)) && node.id && node.type.endsWith("Declaration")) {
      if (!found.has(node.id.name)) found.set(node.id.name, node);
    } else if (node.type === "AssignmentExpression" && node.left.type === "Identifier") assigned.add(node.left.name);
  }
  for (const name of assigned) found.delete(name);
  return found;
}

/** Top-level names win over those of inner scopes, which only fill the gaps. */
function scopeOf(program) {
  const top = new Map();
  for (const statement of program.body) {
    if (statement.type === "VariableDeclaration")
      for (const { id, init } of statement.declarations) id.type === "Identifier" && top.set(id.name, init);
    else if ((isFunction(statement) || isClass(statement)) && statement.id) top.set(statement.id.name, statement);
  }
  const all = declarations(program);
  for (const [name, node] of top) if (all.has(name)) all.set(name, node);
  return all;
}

function follow(node, scope) {
  let name = null;
  const leads = () => node?.type === "Identifier" && !SHIM.test(node.name) && scope.has(node.name);
  for (let hops = 0; leads() && hops < MAX_HOPS; hops++) {
    if (!ANONYMOUS.test(node.name)) name = node.name;
    node = scope.get(node.name);
  }
  return { node, name };
}

function defaultExport(program) {
  for (const statement of program.body) {
    if (statement.type === "ExportDefaultDeclaration") return statement.declaration;
    if (statement.type !== "ExportNamedDeclaration") continue;
    for (const { exported, local } of statement.specifiers)
      if ((exported.name ?? exported.value) === "default") return local;
  }
  return null;
}

/** What a value surely is when it surely is no component, else null. */
function notAComponent(value, scope, hops = 0) {
  if (!value || hops > MAX_HOPS) return null;
  const { node } = follow(value, scope);
  if (!node) return null;
  const rest = (next) => notAComponent(next, scope, hops + 1);
  if (isElement(node)) return "an element";
  switch (node.type) {
    case "Literal":
      return node.value === null && !node.regex && !node.bigint ? "null" : `a ${node.regex ? "RegExp" : typeof node.value}`;
    case "TemplateLiteral":
      return "a string";
    case "ObjectExpression":
      return "an object";
    case "ArrayExpression":
      return "an array";
    case "UnaryExpression":
      return node.operator === "void" ? "undefined" : "a plain value";
    case "BinaryExpression":
    case "UpdateExpression":
      return "a plain value";
    case "Identifier":
      if (REACT_OBJECT.test(node.name)) return "an object";
      return ["undefined", "NaN", "Infinity"].includes(node.name) ? node.name : null;
    case "SequenceExpression":
      return rest(node.expressions.at(-1));
    case "ConditionalExpression":
      return rest(node.consequent) && rest(node.alternate);
    default:
      return null;
  }
}

/** Through memo(...) and forwardRef(...) to the function or class, with the name it has in the source. */
function component(value, scope) {
  let { node, name } = follow(value, scope);
  for (let hops = 0; isCallOf(node, WRAPPER) && node.arguments.length && hops < MAX_HOPS; hops++) {
    const inner = follow(node.arguments[0], scope);
    name = inner.name ?? inner.node?.id?.name ?? name;
    node = inner.node;
  }
  if ((isFunction(node) || isClass(node)) && node.id && !ANONYMOUS.test(node.id.name)) name ??= node.id.name;
  return { node, name };
}

function returned(fn) {
  if (fn.body.type !== "BlockStatement") return [fn.body];
  const inside = (node) => !isFunction(node) && !isClass(node);
  return [...walk(fn.body, inside)].filter((n) => n.type === "ReturnStatement" && n.argument).map((n) => n.argument);
}

const renderOf = (cls) =>
  cls.body.body.find((member) => member.type === "MethodDefinition" && member.key.name === "render")?.value;

function yieldsElement(root, scope) {
  const seen = new Set();
  const queue = [root];
  while (queue.length && seen.size < 2000) {
    const node = follow(queue.pop(), scope).node;
    if (!node || seen.has(node)) continue;
    seen.add(node);
    if (isElement(node)) return true;
    if (isFunction(node)) queue.push(...returned(node));
    else if (isClass(node)) queue.push(renderOf(node));
    else if (node.type === "ConditionalExpression") queue.push(node.consequent, node.alternate);
    else if (node.type === "LogicalExpression") queue.push(node.left, node.right);
    else if (node.type === "SequenceExpression") queue.push(node.expressions.at(-1));
    else if (node.type === "ArrayExpression") queue.push(...node.elements);
    else if (node.type === "CallExpression") queue.push(node.callee, ...node.arguments);
  }
  return false;
}

const isThisProps = (node) =>
  node?.type === "MemberExpression" && node.object.type === "ThisExpression" && node.property.name === "props";

function propsOf(node) {
  if (!isFunction(node) && !isClass(node)) return [];
  let first = isClass(node) ? null : node.params[0];
  if (first?.type === "AssignmentPattern") first = first.left;
  const names = new Set();
  const take = (pattern) => {
    for (const { key, computed } of pattern.properties)
      if (key && !computed) names.add(String(key.name ?? key.value));
  };
  if (first?.type === "ObjectPattern") take(first);
  if (first?.type === "Identifier" || isClass(node)) {
    const isProps = (each) =>
      first ? each?.type === "Identifier" && each.name === first.name : isThisProps(each);
    for (const each of walk(node.body)) {
      if (each.type === "MemberExpression" && !each.computed && isProps(each.object)) names.add(each.property.name);
      if (each.type === "VariableDeclarator" && each.id.type === "ObjectPattern" && isProps(each.init)) take(each.id);
    }
  }
  return [...names].slice(0, MAX_NAMES);
}

function tagName(node) {
  if (node?.type === "Literal" && typeof node.value === "string") return node.value;
  if (node?.type === "Identifier") return FRAGMENT.test(node.name) ? null : node.name;
  if (node?.type !== "MemberExpression" || node.computed) return null;
  const owner = tagName(node.object);
  if (REACT_OBJECT.test(owner ?? "")) return node.property.name === "Fragment" ? null : node.property.name;
  return owner && `${owner}.${node.property.name}`;
}

function childrenOf(call) {
  if (/createElement/.test(shimName(call.callee))) return call.arguments.slice(2);
  const props = call.arguments[1];
  const property = props?.type === "ObjectExpression" && props.properties.find((each) => each.key?.name === "children");
  if (!property) return [];
  return property.value.type === "ArrayExpression" ? property.value.elements : [property.value];
}

function elements(program) {
  const tags = new Map();
  const text = [];
  for (const node of walk(program)) {
    if (!isElement(node)) continue;
    const name = tagName(node.arguments[0])?.replace(SHIM, "").slice(0, MAX_TEXT_CHARS);
    if (name && (tags.has(name) || tags.size < MAX_NAMES)) tags.set(name, (tags.get(name) ?? 0) + 1);
    for (const child of childrenOf(node))
      if (child?.type === "Literal" && typeof child.value === "string" && text.length < MAX_TEXTS)
        text.push(child.value.slice(0, MAX_TEXT_CHARS));
  }
  return { tags: [...tags], text };
}

/** `{component: {possible, reason}, facts}`; facts is null when the tree cannot be read. */
export function analyse(code) {
  try {
    const program = parse(code, { ecmaVersion: "latest", sourceType: "module" });
    const scope = scopeOf(program);
    const exported = defaultExport(program);
    const what = notAComponent(exported, scope);
    const { node, name } = component(exported, scope);
    const facts = {
      component: name?.slice(0, MAX_TEXT_CHARS) ?? null,
      returns_jsx: yieldsElement(node, scope),
      props: propsOf(node),
      ...elements(program),
    };
    const reason = what && `the default export is ${what}, not a component`;
    return { component: { possible: !what, reason }, facts };
  } catch {
    return UNKNOWN; // too deep for this parser, or newer than it: nothing is known, nothing is held against it
  }
}
