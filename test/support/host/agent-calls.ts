import { Metadata, status, type CallOptions, type ServiceError } from '@grpc/grpc-js'
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { GuestSpec, PortMapping, type Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import type {
  ChangeSettingRequest,
  Firewall,
  GuestSettingsServiceClient,
} from '../../../proto/gen/berth/agent/v1/network.js'
import type {
  CreateOrder,
  Operation,
  OperationServiceClient,
  ReinstallOrder,
  SubmitOperationRequest,
  SubmitOperationResponse,
} from '../../../proto/gen/berth/agent/v1/operation.js'
import { waitFor } from '../wait.js'

export type WireChange = NonNullable<ChangeSettingRequest['change']>
type SettingTarget = Partial<ChangeSettingRequest> & Pick<ChangeSettingRequest, 'uuid'>

export function settingRequest(change: WireChange, target: SettingTarget): ChangeSettingRequest {
  return { ifRevision: 0, operationId: '', ...target, change }
}

/** Changes a setting. @returns the guest after the change, with its firewall */
export async function changeSetting(
  settings: GuestSettingsServiceClient,
  change: WireChange,
  target: SettingTarget,
): Promise<Guest & { firewall: Firewall }> {
  const answer = await call(settings.changeSetting.bind(settings), settingRequest(change, target))
  return { ...answer.guest!, firewall: answer.firewall! }
}

/** Makes a tcp mapping. If the host port is 0, the agent chooses it. */
export function wireMapping(fields: Partial<PortMapping>): PortMapping {
  return PortMapping.create({ protocol: 'tcp', ...fields })
}

export const plainSpec: GuestSpec = GuestSpec.create({
  virtualization: 'lxc',
  templateId: 'debian-12',
  limits: {
    vcpuMilli: 1000,
    ramMb: 256,
    diskGb: 1,
    networkDownMbps: 0,
    networkUpMbps: 0,
    ioReadMbps: 0,
    ioWriteMbps: 0,
  },
  assignNat: true,
  portMappings: [wireMapping({ containerPort: 22, description: 'ssh' })],
  sshAuthMode: 'auto_password',
  start: true,
  snapshotLimit: 5,
})

export interface CreateRequest extends CreateOrder {
  readonly operationId: string
}

export function createRequest(id: number, name: string, spec: Partial<GuestSpec> = {}): CreateRequest {
  return {
    operationId: randomUUID(),
    id,
    uuid: randomUUID(),
    name,
    spec: { ...plainSpec, ...spec },
    overcommit: undefined,
    firewall: undefined,
    backupSchedule: undefined,
  }
}

export function createOrder({ operationId, ...value }: CreateRequest): SubmitOperationRequest {
  return { operationId, requestedBy: 'test', order: { $case: 'create', value } }
}

export function resetPasswordOrder(
  uuid: string,
  { operationId = randomUUID(), password = '' }: { operationId?: string; password?: string } = {},
): SubmitOperationRequest {
  return { operationId, requestedBy: 'test', order: { $case: 'resetPassword', value: { uuid, password } } }
}

/** Makes a request to reinstall. By default it generates a password and does not wait for a shutdown. */
export function reinstallOrder(
  uuid: string,
  { operationId = randomUUID(), ...fields }: Partial<ReinstallOrder> & { operationId?: string } = {},
): SubmitOperationRequest {
  const login = { sshAuthMode: 'auto_password', sshPassword: '', sshPublicKey: '' }
  const value = { uuid, templateId: 'debian-12', force: true, liftBlock: false, ...login, ...fields }
  return { operationId, requestedBy: 'test', order: { $case: 'reinstall', value } }
}

export type PowerAction = 'start' | 'stop' | 'restart' | 'delete'

/** Makes a request for a power action. A stop does not wait for a shutdown. */
export function powerOrder(
  action: PowerAction,
  uuid: string,
  operationId: string = randomUUID(),
): SubmitOperationRequest {
  const order = { $case: action, value: { uuid, force: true } } as SubmitOperationRequest['order']
  return { operationId, requestedBy: 'test', order }
}

/** Type of the last overload of a generated method, which has the most parameters. TypeScript infers from this one. */
type Method<Request, Response> = (
  request: Request,
  metadata: Metadata,
  options: Partial<CallOptions>,
  callback: (error: ServiceError | null, response: Response) => void,
) => unknown

/** Makes one call. @returns its response as a promise */
export function call<Request, Response>(method: Method<Request, Response>, request: Request): Promise<Response> {
  return new Promise((done, fail) =>
    method(request, new Metadata(), {}, (error, response) => (error ? fail(error) : done(response))),
  )
}

/** Repeats a call until the agent answers, because it may be dead for a while. @throws the agent's refusal */
export async function callUntilAnswered<Request, Response>(
  method: Method<Request, Response>,
  request: Request,
  stop: () => boolean = () => false,
): Promise<Response> {
  for (;;) {
    try {
      return await call(method, request)
    } catch (error) {
      const { code } = error as ServiceError
      if ((code !== status.UNAVAILABLE && code !== status.CANCELLED) || stop()) throw error
      await delay(50)
    }
  }
}

/** Submits an operation. @throws the refusal */
export function submit(
  client: OperationServiceClient,
  request: SubmitOperationRequest,
): Promise<SubmitOperationResponse> {
  return call(client.submitOperation.bind(client), request)
}

export function createGuest(client: OperationServiceClient, request: CreateRequest): Promise<SubmitOperationResponse> {
  return submit(client, createOrder(request))
}

/** Waits for an operation. @throws if the operation does not end in time, or ends with a status other than `done` */
export async function operationDone(client: OperationServiceClient, id: string): Promise<Operation> {
  const ended = await operationEnded(client, id)
  if (ended.status !== 'done') throw new Error(`operation ${ended.action} ended as ${ended.status}: ${ended.error}`)
  return ended
}

export async function operationEnded(client: OperationServiceClient, id: string): Promise<Operation> {
  let last: Operation | undefined
  return waitFor(
    async () => {
      last = (await callUntilAnswered(client.getOperation.bind(client), { id })).operation
      return last && last.finishedAtMs > 0 ? last : undefined
    },
    { what: () => `operation ${id} ended: ${JSON.stringify(last)}` },
  )
}
