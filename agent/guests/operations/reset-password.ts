import { checkSshPassword } from '../../../shared/guest-rules.js'
import type { Accepted, Asked, OperationKind, OrderOf } from '../../operations/orders.js'
import { driverOf, type GuestContext } from '../context.js'
import { makePassword } from '../make-password.js'
import { withGuest } from '../steps.js'
import { acceptForGuest, refuseBroken } from './guest-order.js'

interface ResetInput {
  /** Sealed: the journal has no password in clear. */
  login: string
}

/** The journal has the new login once the guest has it. A key stays, and a guest that is blocked may. */
export function resetPasswordKind(context: GuestContext): OperationKind<'resetPassword', ResetInput> {
  const { sealLogin, openLogin } = context
  const passwordOf = (uuid: string, { login }: ResetInput): string =>
    openLogin({ uuid, login }).password ?? ''
  return {
    action: 'reset-password',
    accept: (order, asked) => acceptReset(context, order, asked),
    steps: [
      {
        name: 'password',
        // The journal follows in the step: one that failed later would leave it with a login that does not hold.
        run: withGuest<ResetInput>(context, async (record, { input }) => {
          const { uuid } = record
          const password = passwordOf(uuid, input)
          await driverOf(context, record).setPassword(context.machineOf(record), password)
          const login = sealLogin(uuid, { ...openLogin(record), password })
          context.store.update(uuid, { login, hasPassword: true })
        }),
      },
    ],
    answer: ({ subject }, input) => ({ sshPassword: input ? passwordOf(subject.id, input) : '' }),
  }
}

/** @throws {BerthError} `invalid_field`; later as `acceptForGuest` */
function acceptReset(
  context: GuestContext,
  { uuid, password }: OrderOf<'resetPassword'>,
  asked: Asked,
): Accepted<ResetInput> {
  if (password !== '') checkSshPassword(password, 'password')
  const login = { password: password || makePassword() }
  const input = { login: context.sealLogin(uuid, login) }
  return {
    ...acceptForGuest(context, asked, { uuid, input, check: refuseBroken }),
    hashOf: { password: password === '' ? '' : context.digestSecret(password) },
  }
}
