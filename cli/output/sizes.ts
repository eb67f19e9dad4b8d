const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']

/** Returns a readable size, such as `1.5 GiB`. */
export function sizeText(bytes: number): string {
  const power = bytes < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(bytes) / 10))
  const value = bytes / 1024 ** power
  return `${value < 10 && power > 0 ? value.toFixed(1) : Math.round(value)} ${units[power]}`
}
