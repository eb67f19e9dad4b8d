import { smtpChoices, type SmtpChoice } from '../../../shared/abuse.js'
import { invalidField } from '../../../shared/errors.js'
import type { GuestContext } from '../context.js'
import { networkOf } from '../resources/network.js'
import type { GuestRecord } from '../record/record.js'
import { changeGuest, type Target } from './change.js'

/** A change of the security settings. Undefined fields keep their value. */
export interface SecurityChange {
  readonly exempt?: boolean | undefined
  readonly smtp?: string | undefined
}

/**
 * Sets how the abuse watch treats the guest, and whether the guest is allowed to connect to port 25 of other computers.
 * @throws {BerthError} `invalid_field`, and the errors of `changeGuest`
 */
export function setSecurity(context: GuestContext, target: Target, wanted: SecurityChange): Promise<GuestRecord> {
  const { store, network } = context
  return changeGuest(context, target, {
    write: ({ uuid, security: old }) => {
      const { exempt = old.exempt, smtp = old.smtp } = wanted
      store.update(uuid, { security: { exempt, smtp: parseSmtp(smtp) } })
      return () => store.update(uuid, { security: old })
    },
    apply: (record) => network.attach(networkOf(record, context.config), ['rules']),
  })
}

/** Parses the setting for port 25. @throws {BerthError} `invalid_field` */
function parseSmtp(text: string): SmtpChoice {
  const found = smtpChoices.find((choice) => choice === text)
  if (found === undefined) throw invalidField('smtp', `smtp: must be one of ${smtpChoices.join(', ')}`)
  return found
}
