import { BerthError } from '../../../shared/errors.js'
import { checkSshPassword } from '../../../shared/guest-rules.js'
import type { AcceptedOrder, OrderContext, OperationKind, OrderOf } from '../../operations/orders.js'
import type { PasswordResult } from '../../drivers/contract.js'
import type { GuestContext } from '../context.js'
import { makePassword } from '../create/make-password.js'
import { refuseSuspended } from '../policy/policy.js'
import type { GuestRecord } from '../record/record.js'
import { noteForStart, unlessSuspended, withGuest } from '../steps.js'
import { whileFrozen } from '../snapshots/while-frozen.js'
import { acceptForGuest, refuseBroken, refuseRescued } from './guest-order.js'
import { withRoom } from './restore-room.js'

interface ResetInput {
  /** Encrypted login, because the journal contains no passwords in clear text. */
  login: string
}

/**
 * Sets root's password, first in the guest and then in the journal. The SSH key stays. A guest that an administrator
 * has suspended is refused. A guest that is suspended for another reason is accepted.
 */
export function resetPasswordKind(context: GuestContext): OperationKind<'resetPassword', ResetInput> {
  const { logins } = context
  const passwordOf = (uuid: string, { login }: ResetInput): string => logins.open({ uuid, login }).password ?? ''
  return {
    action: 'reset-password',
    accept: (order, asked) => acceptReset(context, order, asked),
    steps: [
      unlessSuspended(context, {
        name: 'password',
        // This step also updates the journal. If a separate step did this and failed, the journal would keep the old
        // login, which no longer works.
        run: withGuest<ResetInput>(context.store, async (record, { input }) => {
          const { uuid } = record
          const password = passwordOf(uuid, input)
          const result = await setPassword(context, record, password)
          noteForStart(context.store, uuid, { change: 'password', later: result === 'at_next_start' })
          const login = logins.seal(uuid, { ...logins.open(record), password })
          context.store.update(uuid, { login, hasPassword: true })
        }),
      }),
    ],
    answer: ({ subject }, input) => ({ sshPassword: input ? passwordOf(subject.id, input) : '' }),
  }
}

/**
 * Sets the password. If the running guest refuses (full disk, stale lock file), the agent freezes the guest and writes
 * to the guest's disk itself.
 * @throws {BerthError} `unsupported`, `guest_refused`
 */
async function setPassword(context: GuestContext, record: GuestRecord, password: string): Promise<PasswordResult> {
  const driver = context.machines.driverOf(record)
  const machine = context.machines.of(record)
  try {
    return await driver.setPassword(machine, password)
  } catch (error) {
    if (!(error instanceof BerthError) || error.code !== 'guest_refused' || !driver.overridePassword) throw error
    context.log.warn(
      { err: error, guest: record.uuid },
      'the running guest refused the password; it is written to the disk of the guest instead',
    )
    const override = (): Promise<PasswordResult> => driver.overridePassword!(machine, password)
    return whileFrozen(context, record, () => withRoom(context, record.uuid, override))
  }
}

/** Checks a request. @throws {BerthError} `invalid_field`; the returned `reserve` throws as in `acceptForGuest` */
function acceptReset(
  context: Pick<GuestContext, 'store' | 'logins'>,
  { uuid, password }: OrderOf<'resetPassword'>,
  asked: OrderContext,
): AcceptedOrder<ResetInput> {
  if (password !== '') checkSshPassword(password, 'password')
  const check = (record: GuestRecord): void => {
    refuseBroken(record)
    refuseRescued(record)
    refuseSuspended(record)
  }
  const login = { password: password || makePassword() }
  const input = { login: context.logins.seal(uuid, login) }
  return {
    ...acceptForGuest(context.store, asked, { uuid, input, check }),
    hashOf: { password: password === '' ? '' : context.logins.digest(password) },
  }
}
