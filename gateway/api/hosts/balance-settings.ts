import { Type, type Static } from 'typebox'
import { timeOfDayPattern } from '../../../shared/guest-rules.js'
import { balanceReasons, type BalancingSettings } from '../../balancing/balancing-record.js'
import type { Balancing } from '../../balancing/balancing.js'
import { trimmed } from '../../http/normalize.js'
import { route, type Route } from '../../http/route.js'
import { oneOf } from '../../http/schema.js'

const timeOfDay = { ...trimmed, pattern: timeOfDayPattern } as const
const fields = {
  enabled: Type.Boolean({ description: '`true`: suggested moves begin automatically. Default: `false`.' }),
  reasons: Type.Array(oneOf(balanceReasons), {
    minItems: 1,
    uniqueItems: true,
    description: 'Reasons of the suggestions that are carried out: `rule`, `load` or both. Default: both.',
  }),
  interval_minutes: Type.Integer({
    minimum: 1,
    maximum: 1440,
    description: 'Minutes between two checks. Each check begins at most `parallel` moves. Default: 15.',
  }),
  parallel: Type.Integer({
    minimum: 1,
    maximum: 5,
    description: 'Maximum number of automatic moves at the same time. Default: 1.',
  }),
  min_gain: Type.Integer({
    minimum: 5,
    maximum: 100,
    description:
      'Minimum gain of a move with the reason `load`, in percentage points. The gain is the decrease of the load of the more loaded of the two hosts. Default: 10.',
  }),
  window_start: Type.String({
    ...timeOfDay,
    examples: ['02:00'],
    description:
      'Start of the daily window in which moves begin: `HH:MM` in the server’s time zone. If `window_start` and `window_end` are equal, moves begin at any time. Default: 00:00.',
  }),
  window_end: Type.String({
    ...timeOfDay,
    examples: ['05:00'],
    description:
      'End of the daily window. If it is before `window_start`, the window ends on the next day. Moves that have begun continue. Default: 00:00.',
  }),
  pause_hours: Type.Integer({
    minimum: 1,
    maximum: 168,
    description:
      'Hours for which a container stays on its host after a move, a failed attempt or a failed dry run. Default: 24.',
  }),
  change_addresses: Type.Boolean({
    description:
      '`true`: containers also move if their addresses or ports change, as `changes_addresses` of a dry run shows. Default: `false`.',
  }),
} as const

const SettingsSchema = Type.Object(fields, { title: 'BalanceSettings' })
const ChangeSchema = Type.Partial(SettingsSchema, { title: 'ChangeBalanceSettings' })
type SettingsRow = Static<typeof SettingsSchema>

const common = { path: '/balance-settings', bound: 'refused', tag: 'Hosts', data: SettingsSchema } as const

export function balanceSettingRoutes({ balancing }: { readonly balancing: Balancing }): Route[] {
  return [
    route({
      ...common,
      method: 'GET',
      name: 'getBalanceSettings',
      scope: 'host:read',
      summary: 'Returns the settings of automatic balancing',
      handle: () => ({ data: rowOf(balancing.settings.current) }),
    }),
    route({
      ...common,
      method: 'PATCH',
      name: 'updateBalanceSettings',
      scope: 'host:manage',
      audit: 'balance_settings.update',
      summary:
        'Changes the settings of automatic balancing, which carries out suggested moves. Omitted fields stay unchanged. Moves that have begun continue',
      body: ChangeSchema,
      example: { enabled: true, window_start: '02:00', window_end: '05:00' },
      handle: async (context) => {
        const { body } = context
        context.audit({
          detail: Object.entries(body)
            .map(([name, value]) => `${name} ${String(value)}`)
            .join(', '),
        })
        const changed = await balancing.settings.update((old) => settingsOf({ ...rowOf(old), ...body }))
        return { message: 'balance settings updated', data: rowOf(changed) }
      },
    }),
  ]
}

function rowOf(settings: BalancingSettings): SettingsRow {
  return {
    enabled: settings.enabled,
    reasons: [...settings.reasons],
    interval_minutes: settings.intervalMinutes,
    parallel: settings.parallel,
    min_gain: settings.minGain,
    window_start: settings.windowStart,
    window_end: settings.windowEnd,
    pause_hours: settings.pauseHours,
    change_addresses: settings.changesAddresses,
  }
}

function settingsOf(row: SettingsRow): BalancingSettings {
  return {
    enabled: row.enabled,
    reasons: row.reasons,
    intervalMinutes: row.interval_minutes,
    parallel: row.parallel,
    minGain: row.min_gain,
    windowStart: row.window_start,
    windowEnd: row.window_end,
    pauseHours: row.pause_hours,
    changesAddresses: row.change_addresses,
  }
}
