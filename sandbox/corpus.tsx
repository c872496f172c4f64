// Parts of generated pages, see corpus.py. NOUN, ICON, COLOUR, SIZE, NUMBERS and ROWS are filled in.
// --- List
function NOUNList({ items = ["ada", "grace", "barbara"] }: { items?: string[] }) {
  const [picked, setPicked] = useState<string | null>(null);
  const [query, setQuery] = useState("");
  const shown = useMemo(() => items.filter((item) => item.includes(query)), [items, query]);
  return (
    <section className="rounded-xl bg-white p-SIZE shadow">
      <input value={query} onChange={(event) => setQuery(event.target.value)} placeholder="Filter" />
      <ul className="mt-2 space-y-1 divide-y divide-COLOUR-200">
        {shown.map((item) => (
          <li key={item} onClick={() => setPicked(item)} className="flex gap-2 hover:bg-COLOUR-50">
            <ICON size={16} /> {item}
          </li>
        ))}
      </ul>
      <p className="text-sm text-COLOUR-600">{picked ? `You picked ${picked}` : "Nothing yet"}</p>
    </section>
  );
}
// --- Form
function NOUNForm() {
  const [values, setValues] = useState({ name: "", kind: "first", agreed: false });
  const [sent, setSent] = useState(false);
  function submit(event: React.FormEvent) {
    event.preventDefault();
    setSent(values.name.trim().length > 0 && values.agreed);
  }
  return (
    <form onSubmit={submit} className="grid grid-cols-2 gap-SIZE border border-COLOUR-300 p-4">
      <label htmlFor="name">Name of the NOUN</label>
      <input
        id="name"
        value={values.name}
        onChange={(event) => setValues({ ...values, name: event.target.value })}
      />
      <select value={values.kind} onChange={(event) => setValues({ ...values, kind: event.target.value })}>
        <option value="first">First</option>
        <option value="other">Other</option>
      </select>
      <input
        type="checkbox"
        checked={values.agreed}
        onChange={() => setValues({ ...values, agreed: !values.agreed })}
      />
      <button type="submit" disabled={sent} className="bg-COLOUR-600 text-white">
        Save NOUN
      </button>
      {sent && <p role="status">Thank you, {values.name}!</p>}
    </form>
  );
}
// --- Chart
const dataOfNOUN = [NUMBERS];

function NOUNChart({ width = 320, height = 120 }) {
  const top = Math.max(...dataOfNOUN);
  const step = width / dataOfNOUN.length;
  const high = (value: number) => (value / top) * height;
  const points = dataOfNOUN.map((value, i) => `${i * step},${height - high(value)}`).join(" ");
  return (
    <svg viewBox={`0 0 ${width} ${height}`} className="w-full" role="img" aria-label="NOUN over time">
      <polyline points={points} fill="none" stroke="currentColor" strokeWidth={2} />
      {dataOfNOUN.map((value, i) => (
        <rect key={i} x={i * step} y={height - high(value)} width={step - 2} height={high(value)} fill="#3b82f6" />
      ))}
      <text x="4" y="12" fontSize="10">
        {top} at most
      </text>
    </svg>
  );
}
// --- Todo
type NOUNAction = { type: "add"; text: string } | { type: "toggle"; id: number };
interface NOUNItem {
  id: number;
  text: string;
  done: boolean;
}

function reduceNOUN(state: NOUNItem[], action: NOUNAction): NOUNItem[] {
  switch (action.type) {
    case "add":
      return [...state, { id: state.length, text: action.text, done: false }];
    case "toggle":
      return state.map((item) => (item.id === action.id ? { ...item, done: !item.done } : item));
    default:
      return state;
  }
}

function NOUNTodo() {
  const [items, dispatch] = useReducer(reduceNOUN, [{ id: 0, text: "first NOUN", done: false }]);
  const field = useRef<HTMLInputElement>(null);
  return (
    <div className="mx-auto max-w-md rounded border-COLOUR-400 p-SIZE">
      <input ref={field} />
      <button onClick={() => dispatch({ type: "add", text: field.current?.value ?? "" })}>
        <ICON /> Add
      </button>
      <ol>
        {items.map((item) => (
          <li
            key={item.id}
            onClick={() => dispatch({ type: "toggle", id: item.id })}
            style={{ textDecoration: item.done ? "line-through" : "none" }}
          >
            {item.text}
          </li>
        ))}
      </ol>
    </div>
  );
}
// --- Timer
function NOUNTimer({ start = SIZE }: { start?: number }) {
  const [left, setLeft] = useState(start);
  useEffect(() => {
    const timer = setInterval(() => setLeft((seconds) => Math.max(0, seconds - 1)), 1000);
    return () => clearInterval(timer);
  }, []);
  const reset = useCallback(() => setLeft(start), [start]);
  return (
    <p onDoubleClick={reset} className="font-mono text-4xl text-COLOUR-700">
      <ICON className="inline" /> {left} s left
    </p>
  );
}
// --- Table
function NOUNTable() {
  const rows = [
ROWS
  ];
  const total = rows.reduce((sum, row) => sum + row.price * row.count, 0);
  return (
    <table className="w-full text-left text-sm">
      <thead className="bg-COLOUR-100 uppercase">
        <tr>
          <th>NOUN</th>
          <th>Price</th>
          <th>Count</th>
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={row.name} className={row.count > 3 ? "font-bold" : undefined}>
            <td>{row.name}</td>
            <td>{row.price.toFixed(2)} €</td>
            <td>{row.count}</td>
          </tr>
        ))}
      </tbody>
      <tfoot>
        <tr>
          <td colSpan={3}>Total: {total.toFixed(2)} €</td>
        </tr>
      </tfoot>
    </table>
  );
}
// --- App
export default function App() {
  const [open, setOpen] = useState(true);
  return (
    <main className="min-h-screen space-y-4 bg-COLOUR-50 p-6">
      <h1 className="text-2xl font-bold">TITLE</h1>
      <button onClick={() => setOpen(!open)}>{open ? "Hide" : "Show"}</button>
PARTS
    </main>
  );
}
