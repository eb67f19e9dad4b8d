import { texts } from '../i18n/text.svelte.ts'
import { serverTime } from './server-time.svelte.ts'

const binaryUnits = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']
const decimalUnits = ['B', 'kB', 'MB', 'GB', 'TB', 'PB']

/** @param bytes null or undefined: not known; the unit is the largest one in which the amount is at least 1 */
export function formatBytes(bytes: number | null | undefined): string {
  return scaled(bytes, 1024, binaryUnits)
}

/** Formats traffic in decimal units, like traffic limits. */
export function formatTraffic(bytes: number): string {
  return scaled(bytes, 1000, decimalUnits)
}

/** Shown in place of an unknown value. */
export const unknown = '–'

function isKnown(value: number | null | undefined): value is number {
  return Number.isFinite(value)
}

/** Formats a number of bytes. A non-breaking space keeps the value and its unit on one line. */
function scaled(bytes: number | null | undefined, base: number, units: readonly string[]): string {
  if (!isKnown(bytes)) return unknown
  let [value, power] = [bytes, 0]
  for (; value >= base && power < units.length - 1; power++) value /= base
  return `${Number(value.toFixed(value >= 100 || power === 0 ? 0 : 1))}\u00a0${units[power]}`
}

/** @param mb amount in MiB */
export function formatMb(mb: number): string {
  return formatBytes(mb * 1024 ** 2)
}

/** @param bytes rate in bytes per second */
export function formatRate(bytes: number): string {
  return Number.isFinite(bytes) ? `${formatBytes(bytes)}/s` : unknown
}

/** @param value null or undefined: not known */
export function formatPercent(value: number | null | undefined): string {
  return isKnown(value) ? `${Number(value.toFixed(value >= 10 ? 0 : 1))}%` : unknown
}

/** Formats a time of the API in the time zone of the user, without seconds. */
export function formatTime(time: string): string {
  return time === '' ? unknown : serverTime.shown(time).slice(0, 16)
}

/** Formats the time between two times of the API, such as `0:07` or `1:02:30`. */
export function formatDuration(from: string, to: string): string {
  const seconds = Math.round((parseUtc(to) - parseUtc(from)) / 1000)
  if (!Number.isFinite(seconds)) return unknown
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60]
  const pad = (value: number): string => String(value).padStart(2, '0')
  const rest = pad(seconds % 60)
  return hours > 0 ? `${hours}:${pad(minutes)}:${rest}` : `${minutes}:${rest}`
}

/** Reads a time of the API as UTC. Its zone does not matter for differences. @returns ms, `NaN` without a time */
function parseUtc(time: string): number {
  return Date.parse(`${time.replace(' ', 'T')}Z`)
}

/** Formatters are cached, because creating one costs more than formatting the numbers of a page. */
const numbers = { en: new Intl.NumberFormat('en'), zh: new Intl.NumberFormat('zh-CN') } as const

export function formatNumber(value: number | undefined): string {
  return value === undefined || !Number.isFinite(value) ? unknown : numbers[texts.language].format(value)
}
