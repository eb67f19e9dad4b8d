import { randomUUID } from 'node:crypto'
import { checkFirewall, type WantedFirewall } from '../../../shared/firewall-rules.js'
import type { Firewall } from '../../../shared/firewall-rules.js'
import type { GuestContext } from '../context.js'
import { networkOf } from '../resources/network.js'
import type { GuestRecord } from '../record/record.js'
import { changeGuest, type Target } from './change.js'

/**
 * Replaces all rules of the guest's firewall.
 * @returns the guest with the stored rules, which are canonical and have an id each
 * @throws {BerthError} `invalid_field` with the field of the rule, and the errors of `changeGuest`
 */
export async function setFirewall(context: GuestContext, target: Target, wanted: WantedFirewall): Promise<GuestRecord> {
  const { store, network } = context
  const checked = checkFirewall(wanted)
  return changeGuest(context, target, {
    write: ({ uuid, firewall: old }) => {
      store.update(uuid, { firewall: withIds(checked, old) })
      return () => store.update(uuid, { firewall: old })
    },
    apply: (record) => network.attach(networkOf(record, context.config), ['rules']),
  })
}

/** Keeps the id of a rule if the old firewall has a rule with this id. All other rules get a new id. */
function withIds(wanted: Firewall, old: Firewall): Firewall {
  const known = new Set(old.rules.map(({ id }) => id))
  const rules = wanted.rules.map((rule) => ({ ...rule, id: known.has(rule.id) ? rule.id : randomUUID() }))
  return { enabled: wanted.enabled, defaultAction: wanted.defaultAction, rules }
}
