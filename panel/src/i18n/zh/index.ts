import { changes } from './changes.ts'
import { console } from './console.ts'
import { drains } from './drains.ts'
import { errors } from './errors.ts'
import { fleet } from './fleet.ts'
import { gateways } from './gateways.ts'
import { guestSettings } from './guest-settings.ts'
import { guests } from './guests.ts'
import { labels } from './labels.ts'
import { maintenance } from './maintenance.ts'
import { moves } from './moves.ts'
import { overview } from './overview.ts'
import { rules } from './rules.ts'
import { session } from './session.ts'
import { settings } from './settings.ts'
import { suspension } from './suspension.ts'
import { tasks } from './tasks.ts'
import { timeline } from './timeline.ts'
import { ui } from './ui.ts'
import { upgrades } from './upgrades.ts'
import { webhooks } from './webhooks.ts'
import { why } from './why.ts'

export const zh = {
  ...ui,
  ...session,
  ...guests,
  ...guestSettings,
  ...labels,
  ...moves,
  ...drains,
  ...maintenance,
  ...tasks,
  ...console,
  ...fleet,
  ...overview,
  ...upgrades,
  ...settings,
  ...errors,
  ...rules,
  ...why,
  ...suspension,
  ...timeline,
  ...webhooks,
  ...gateways,
  ...changes,
}

export { agentText } from './agent-texts.ts'
