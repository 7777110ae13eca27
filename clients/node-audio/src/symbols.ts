/** `Symbol.dispose` and `Symbol.asyncDispose` where the runtime lacks them. Nothing else is patched. */
for (const name of ['dispose', 'asyncDispose'] as const) {
  if (Symbol[name] === undefined) {
    Object.defineProperty(Symbol, name, { value: Symbol(`Symbol.${name}`) });
  }
}

export {};
