import type { Key } from '../../i18n/text.svelte.ts'

interface Words {
  readonly key: Key
  readonly values: Readonly<Record<string, string | number>>
}

const [hoursOfDay, hoursOfWeek] = [24, 168]

/** Plans the text that describes how often a schedule runs. @param time time of day, `HH:MM` */
export function planWords({ interval_hours: hours, time }: { interval_hours: number; time: string }): Words {
  if (hours === 1) return { key: 'schedules.hourly', values: {} }
  if (hours === hoursOfDay) return { key: 'schedules.daily', values: { time } }
  if (hours === hoursOfWeek) return { key: 'schedules.weekly', values: { time } }
  if (hours % hoursOfDay === 0) return { key: 'schedules.days', values: { days: hours / hoursOfDay, time } }
  return { key: 'schedules.hours', values: { hours, time } }
}
