import { conflict, invalidField } from '../../../shared/errors.js'
import { oneOf } from '../../../shared/field-checks.js'
import { usualRescue } from '../../images/catalog.js'
import type { AcceptedOrder, OrderContext, OperationKind, OrderOf } from '../../operations/orders.js'
import type { OperationOutcome, Step } from '../../operations/types.js'
import { checkRoom } from '../../storage/room.js'
import type { HostCapacity } from '../resources/capacity.js'
import type { DiskContext, GuestContext, GuestImages } from '../context.js'
import { makePassword } from '../create/make-password.js'
import { checkTemplateId } from '../create/parse-create.js'
import { refuseSuspended } from '../policy/policy.js'
import type { BootChoice, GuestRecord } from '../record/record.js'
import { bootSteps, ensureImage, ifPresent, unlessSuspended, withGuest } from '../steps.js'
import { acceptForGuest, refuseBroken } from './guest-order.js'
import { ifItRuns, stopToBootAgain } from './replace-disk.js'
import type { GuestStore } from '../record/guest-store.js'
import type { LoginVault } from '../login-vault.js'

interface BootInput extends BootChoice {
  /** Encrypted login of root for rescue mode; empty for other modes. */
  login: string
  /** True if the guest must be stopped without a graceful shutdown. */
  force: boolean
}

type Order = OrderOf<'changeBoot'>

const rescueBytes = 8 * 1024 ** 3

/**
 * Makes the guest boot from its disk, a CD or a rescue system. A running guest is restarted; a stopped guest changes at
 * its next start. After a failure, the old boot source stays. In rescue mode, the answer contains root's password.
 */
export function changeBootKind(
  context: GuestContext,
  capacity: Pick<HostCapacity, 'readDisk'>,
): OperationKind<'changeBoot', BootInput> {
  return {
    action: 'boot',
    accept: (order, asked) => acceptBoot({ context, capacity }, order, asked),
    begin: ({ subject: { id } }) => {
      if (context.store.find(id)?.wanted === 'running') context.store.update(id, { status: 'restarting' })
    },
    steps: [
      imageStep(context.images),
      unlessSuspended(context, rescueStep(context)),
      stopToBootAgain(context),
      unlessSuspended(context, modeStep(context.store)),
      ...bootSteps(context).map((step) => ifItRuns(context.store, step)),
      commitStep(context),
    ],
    settle: ({ subject: { id } }, outcome) => settleBoot(context.store, id, outcome),
    answer: ({ subject: { id } }, input) => ({
      sshPassword: input?.login ? (context.logins.open({ uuid: id, login: input.login }).password ?? '') : '',
    }),
  }
}

/**
 * Checks and accepts a request to change the boot source.
 * @throws {BerthError} `invalid_field`, `unsupported`; the returned `reserve` also throws `not_found`, `invalid_state`,
 * `image_disabled`, …
 */
async function acceptBoot(
  { context, capacity }: { context: GuestContext; capacity: Pick<HostCapacity, 'readDisk'> },
  order: Order,
  asked: OrderContext,
): Promise<AcceptedOrder<BootInput>> {
  const { uuid, force } = order
  const kind = context.store.find(uuid)?.spec.virtualization ?? 'lxc'
  const { mode, image } = parseChoice(order, kind)
  const isRescue = mode === 'rescue'
  const disk = isRescue ? await capacity.readDisk() : undefined
  const login = isRescue ? context.logins.seal(uuid, { password: makePassword() }) : ''
  const check = (record: GuestRecord): void => {
    refuseBroken(record)
    refuseSuspended(record)
    refuseWithoutChange(record, { mode, image })
    if (mode !== 'disk') context.images.checkBootable(image, typesOf(mode, kind))
    if (disk) checkRoom(disk, rescueBytes)
  }
  return {
    ...acceptForGuest(context.store, asked, { uuid, input: { mode, image, login, force }, check }),
    hashOf: { mode, image, force },
  }
}

/** Parses the boot source. @throws {BerthError} `invalid_field` */
function parseChoice({ mode: asked, image }: Order, kind: 'lxc' | 'kvm'): BootChoice {
  const mode = oneOf('mode', asked, ['disk', 'cdrom', 'rescue'])
  if (mode === 'cdrom' && kind === 'lxc') throw invalidField('mode', 'mode: only virtual machines can boot a CD')
  if (mode === 'disk' && image !== '') throw invalidField('image', 'image: not allowed if the mode is disk')
  if (mode === 'disk') return { mode, image }
  if (mode === 'rescue' && image === '') return { mode, image: usualRescue[kind] }
  checkTemplateId(image)
  return { mode, image }
}

function typesOf(mode: BootChoice['mode'], kind: 'lxc' | 'kvm') {
  if (mode === 'cdrom') return ['iso'] as const
  return kind === 'lxc' ? (['lxc'] as const) : (['rescue', 'kvm'] as const)
}

/** Refuses rescue mode for a guest that is already in it. @throws {BerthError} `invalid_state` */
function refuseWithoutChange({ boot }: GuestRecord, { mode }: BootChoice): void {
  if (mode === 'rescue' && boot.mode === 'rescue')
    throw conflict('invalid_state', 'the container is in rescue mode: boot its disk first')
}

function imageStep(images: GuestImages): Step<BootInput> {
  return {
    name: 'image',
    run: async (step) => {
      if (step.input.image !== '') await ensureImage(images, step.input.image, step)
    },
  }
}

/** Creates the rescue system before the guest is stopped, so that a failure does not affect the guest. */
function rescueStep(context: GuestContext): Step<BootInput> {
  const { volumes } = context
  return {
    name: 'rescue',
    weight: 2,
    run: withGuest<BootInput>(context.store, async (record, { input }) => {
      if (input.mode !== 'rescue') return
      refuseWithoutChange(record, input)
      const driver = context.machines.driverOf(record)
      const own = context.machines.of(record)
      const machine = { ...own, limits: { ...own.limits, diskBytes: rescueBytes } }
      await volumes.prepareRescue(record.uuid, input.image, driver.volumeLimitBytes(machine))
      await driver.initialize(machine, rescueLogin(context.logins, record, input), volumes.rescuePathOf(record.uuid))
    }),
    undo: ifPresent(context.store, async ({ uuid, boot }, { input }) => {
      if (input.mode === 'rescue' && boot.mode !== 'rescue') await volumes.discardRescue(uuid)
    }),
  }
}

/** Returns the login of the rescue system. The login includes the guest's known SSH key. */
function rescueLogin(logins: LoginVault, record: GuestRecord, { login }: BootInput) {
  const { publicKey } = logins.open(record)
  return { ...logins.open({ uuid: record.uuid, login }), ...(publicKey === undefined ? {} : { publicKey }) }
}

function modeStep(store: GuestStore): Step<BootInput> {
  return {
    name: 'mode',
    run: async ({ subject: { id }, input: { mode, image } }) => {
      const { before, ...boot } = store.get(id).boot
      store.update(id, { boot: { mode, image, before: before ?? boot } })
    },
    undo: async ({ subject: { id } }) => {
      const before = store.find(id)?.boot.before
      if (before) store.update(id, { boot: before })
    },
  }
}

/** Makes the new boot source final. Later failures do not restore the previous source, which can be deleted by then. */
function commitStep(context: DiskContext): Step<BootInput> {
  return {
    name: 'commit',
    run: withGuest<BootInput>(context.store, async ({ uuid, boot: { mode, image } }, { input, log }) => {
      context.store.update(uuid, { boot: { mode, image } })
      if (input.mode === 'rescue') return
      await context.volumes
        .discardRescue(uuid)
        .catch((err: unknown) => log.warn({ err }, 'could not remove a rescue system'))
    }),
  }
}

function settleBoot(store: GuestStore, id: string, outcome: OperationOutcome): void {
  const record = store.find(id)
  if (!record || outcome.status === 'canceled') return // canceled: no step ran, or all of them were undone
  const { mode, image } = record.boot
  // If the guest did not start again, the reason is shown, and the reconciler starts the guest later.
  const statusReason = outcome.status === 'failed' ? outcome.message : ''
  store.update(id, { boot: { mode, image }, status: record.wanted, statusReason })
}
