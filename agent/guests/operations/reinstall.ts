import { conflict } from '../../../shared/errors.js'
import type { AcceptedOrder, OrderContext, OperationKind, OrderOf } from '../../operations/orders.js'
import type { OperationOutcome, Step } from '../../operations/types.js'
import { checkRoom } from '../../storage/room.js'
import type { HostCapacity } from '../resources/capacity.js'
import type { Login } from '../../drivers/machine.js'
import type { GuestContext, GuestImages } from '../context.js'
import { checkTemplateId } from '../create/parse-create.js'
import { hashableLogin, loginFor, loginOf, parseLogin } from '../create/parse-login.js'
import { liftAbuse, refuseSuspended } from '../policy/policy.js'
import type { GuestRecord } from '../record/record.js'
import { removeStrays } from '../snapshots/snapshots.js'
import { ensureImage, ifPresent, withGuest } from '../steps.js'
import { volumeLimitOf } from '../snapshots/volume-bound.js'
import { acceptForGuest, refuseBroken, refuseProtected, refuseRescued } from './guest-order.js'
import { broken } from './outcomes.js'
import { forgetKept, replaceDiskSteps } from './replace-disk.js'
import { endRoom, raiseBound } from './restore-room.js'
import type { GuestStore } from '../record/guest-store.js'
import type { LoginVault } from '../login-vault.js'

const gib = 1024 ** 3
/** Additional bytes for the new disk's first start, because the old disk still counts towards the guest's limit. */
const bootBytes = 256 * 1024 ** 2

interface ReinstallInput {
  templateId: string
  /** Encrypted login, because no passwords are stored in clear text. Empty: the guest keeps its login. */
  login: string
  /** True if the guest must be stopped without a graceful shutdown. */
  force: boolean
}

/**
 * Gives the guest a new disk from a template, and a new login. Everything else stays, including snapshots. At the end,
 * the guest is started if it should run. The old disk is retained until the new disk works, and restored after any
 * failure. Until the step `commit`, the journal contains the old template and login.
 */
export function reinstallKind(
  context: GuestContext,
  capacity: Pick<HostCapacity, 'readDisk'>,
): OperationKind<'reinstall', ReinstallInput> {
  return {
    action: 'reinstall',
    accept: (order, asked) => acceptReinstall({ context, capacity }, order, asked),
    begin: ({ subject: { id } }) => {
      if (context.store.find(id)?.wanted === 'running') context.store.update(id, { status: 'restarting' })
    },
    steps: [
      imageStep(context.images),
      ...replaceDiskSteps(context, { prepare: preparedDiskStep(context), commit: commitStep(context) }),
    ],
    settle: ({ subject: { id } }, outcome) => settleReinstall(context.store, id, outcome),
    answer: ({ subject: { id } }, input) => ({
      sshPassword: input?.login ? (context.logins.open({ uuid: id, login: input.login }).password ?? '') : '',
    }),
  }
}

interface Parts {
  readonly context: GuestContext
  readonly capacity: Pick<HostCapacity, 'readDisk'>
}

/**
 * Checks and accepts a request for a reinstallation.
 * @throws {BerthError} `invalid_field`; the returned `reserve` also throws `resource_exhausted`, `not_found`,
 * `invalid_state`, `image_disabled`
 */
async function acceptReinstall(
  { context, capacity }: Parts,
  order: OrderOf<'reinstall'>,
  asked: OrderContext,
): Promise<AcceptedOrder<ReinstallInput>> {
  const { uuid, force } = order
  checkTemplateId(order.templateId)
  const kind = context.store.find(uuid)?.spec.virtualization ?? 'lxc'
  const templateId = context.images.idFor(order.templateId, kind)
  const keeps = order.sshAuthMode === 'keep'
  const wanted = keeps ? undefined : loginFor(context.images.osOf(templateId), parseLogin(order))
  const login = wanted ? context.logins.seal(uuid, loginOf(wanted)) : ''
  const disk = await capacity.readDisk()
  const check = (record: GuestRecord): void => {
    refuseBroken(record)
    refuseRescued(record)
    refuseSuspended(record)
    refuseProtected(record)
    context.images.checkUsable(templateId, record.spec.virtualization)
    if (keeps && record.login === null)
      throw conflict(
        'invalid_state',
        'ssh_auth_mode: keep is not possible, because no login of this container is stored',
      )
    checkRoom(disk, record.spec.limits.diskGb * gib)
    if (order.liftBlock) liftAbuse(context.store, record)
  }
  return {
    ...acceptForGuest(context.store, asked, { uuid, input: { templateId, login, force }, check }),
    hashOf: { templateId, force, login: wanted ? hashableLogin(context.logins, wanted) : 'keep' },
  }
}

function imageStep(images: GuestImages): Step<ReinstallInput> {
  return { name: 'image', run: (step) => ensureImage(images, step.input.templateId, step) }
}

function preparedDiskStep(context: GuestContext): Step<ReinstallInput> {
  const { store, volumes } = context
  return {
    name: 'disk',
    weight: 3,
    run: withGuest<ReinstallInput>(store, async (record, { input }) => {
      const { uuid } = record
      await removeStrays(context, uuid)
      await raiseBound(context, uuid, bootBytes)
      await store.mutex.run(uuid, () =>
        volumes.prepare(uuid, { templateId: input.templateId }, volumeLimitOf(context.machines, store.get(uuid))),
      )
      const login = input.login === '' ? await readKeptLogin(context, record) : newLogin(context.logins, record, input)
      await context.machines.driverOf(record).initialize(context.machines.of(record), login, volumes.nextPathOf(uuid))
    }),
    undo: ifPresent(store, async ({ uuid }, step) => {
      await volumes.discardNext(uuid)
      await endRoom(context, step)
    }),
  }
}

/** Returns the login that works now, even if the owner changed it inside the guest. */
async function readKeptLogin(context: Pick<GuestContext, 'machines' | 'logins'>, record: GuestRecord): Promise<Login> {
  const journaled = context.logins.open(record)
  const current = await context.machines.driverOf(record).readLogin(context.machines.of(record))
  const { userData } = journaled
  return current ? { ...current, ...(userData === undefined ? {} : { userData }) } : journaled
}

function newLogin(logins: LoginVault, record: GuestRecord, { login }: ReinstallInput): Login {
  const old = logins.open(record)
  if (login === '') return old
  const { userData } = old
  return { ...logins.open({ uuid: record.uuid, login }), ...(userData === undefined ? {} : { userData }) }
}

/** Makes the new disk final. Later failures do not restore the old disk. */
function commitStep(context: GuestContext): Step<ReinstallInput> {
  return {
    name: 'commit',
    run: withGuest<ReinstallInput>(context.store, async (record, step) => {
      const { templateId, login } = step.input
      const told = newLogin(context.logins, record, step.input)
      const changed = {
        login: context.logins.seal(record.uuid, told),
        hasPassword: told.password !== undefined,
      }
      const os = context.images.osOf(templateId)
      context.store.update(record.uuid, { templateId, os, ...(login === '' ? {} : changed) })
      await forgetKept(context, step)
      await endRoom(context, step, { extraBytes: 0 })
    }),
  }
}

function settleReinstall(store: GuestStore, id: string, outcome: OperationOutcome): void {
  const record = store.find(id)
  if (!record || outcome.status === 'canceled') return // canceled: no step ran, or all of them were undone
  if (outcome.status === 'failed' && !outcome.undone) return broken(store, id, outcome.message)
  const statusReason = outcome.status === 'failed' ? outcome.message : ''
  // Even if the guest did not start again, it gets the desired status, because the reconciler starts it later.
  store.update(id, { status: record.wanted, statusReason })
}
