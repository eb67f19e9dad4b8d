import { texts } from '../i18n/text.svelte.ts'

const binaryUnits = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']
const decimalUnits = ['B', 'kB', 'MB', 'GB', 'TB', 'PB']

/** @param bytes shown in the largest unit that leaves at least 1 */
export function formatBytes(bytes: number): string {
  return scaled(bytes, 1024, binaryUnits)
}

/** Traffic in the units of its quotas. @param bytes shown by 1000 */
export function formatTraffic(bytes: number): string {
  return scaled(bytes, 1000, decimalUnits)
}

/** Shown for a figure that is not known. */
export const unknown = '–'

/** A figure and its unit stay on one line. */
function scaled(bytes: number, base: number, units: readonly string[]): string {
  if (!Number.isFinite(bytes)) return unknown
  let [value, power] = [bytes, 0]
  for (; value >= base && power < units.length - 1; power++) value /= base
  return `${Number(value.toFixed(value >= 100 || power === 0 ? 0 : 1))}\u00a0${units[power]}`
}

/** @param mb MiB */
export function formatMb(mb: number): string {
  return formatBytes(mb * 1024 ** 2)
}

/** @param bytes per second */
export function formatRate(bytes: number): string {
  return Number.isFinite(bytes) ? `${formatBytes(bytes)}/s` : unknown
}

export function formatPercent(value: number): string {
  return Number.isFinite(value) ? `${Number(value.toFixed(value >= 10 ? 0 : 1))}%` : unknown
}

/** The server's times are `YYYY-MM-DD hh:mm:ss` in its own zone: shown unchanged, without the seconds. */
export function formatTime(time: string): string {
  return time === '' ? unknown : time.slice(0, 16)
}

/** Cached, since creating one costs more than the formatting of a page. */
const numbers = { en: new Intl.NumberFormat('en'), zh: new Intl.NumberFormat('zh-CN') } as const

export function formatNumber(value: number | undefined): string {
  return value === undefined || !Number.isFinite(value) ? unknown : numbers[texts.language].format(value)
}
