import { Type, type Static } from 'typebox'
import type { GetSwapResponse } from '../../../proto/gen/berth/agent/v1/host.js'
import { BerthError } from '../../../shared/errors.js'
import { checkSwapMb, swapActions, swapMb, type SwapAction } from '../../../shared/swap-rules.js'
import type { Fleet } from '../../fleet/contract.js'
import { route, type RequestContext, type Route } from '../../http/route.js'
import { oneOf } from '../../http/schema.js'
import { awaitDone } from '../guests/carry-out.js'
import { chooseHost, HostQuerySchema } from '../host-choice.js'

const mib = 1024 ** 2
const count = Type.Integer({ minimum: 0 })

const SwapSchema = Type.Object(
  {
    host_id: Type.String(),
    total_mb: Type.Integer({ minimum: 0, description: 'Size of all swap areas of the host, in MiB.' }),
    used_mb: count,
    free_mb: count,
    enabled: Type.Boolean({ description: '`true`: the swap file is in use.' }),
    swap_file: Type.String({
      description: 'Path on the host of the swap file that Berth manages. Empty: this file does not exist.',
    }),
    size_mb: Type.Integer({
      minimum: 0,
      description: 'Size of the swap file in MiB, whether it is in use or not. 0: the swap file does not exist.',
    }),
  },
  { title: 'Swap' },
)

const SwapBodySchema = Type.Object(
  {
    action: Type.Optional(oneOf(swapActions, 'Change of the swap file. Default: `resize`.')),
    size_mb: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: swapMb.max,
        description: `New size of the swap file in MiB, at least ${swapMb.min}. Required for \`create\` and \`resize\`, ignored for other actions.`,
      }),
    ),
  },
  { title: 'ChangeSwap' },
)
type SwapBody = Static<typeof SwapBodySchema>

const common = { path: '/swap', tag: 'Settings', query: HostQuerySchema, data: SwapSchema } as const
const agentErrors = ['host_offline', 'agent_timeout']

/** Routes for the swap of a host. Only Berth's own swap file can be changed. */
export function swapRoutes(fleet: Fleet): Route[] {
  return [
    route({
      ...common,
      method: 'GET',
      name: 'getSwap',
      subUser: 'refused',
      scope: 'swap:read',
      bound: 'same',
      summary: 'Returns the swap of a host',
      errors: agentErrors,
      handle: async ({ query }) => ({
        data: await readSwap(fleet, chooseHost(fleet.view, query.host_id).id),
      }),
    }),
    route({
      ...common,
      method: 'POST',
      name: 'changeSwap',
      scope: 'swap:manage',
      bound: 'refused',
      audit: 'swap.change',
      summary:
        'Creates, resizes, enables, disables or deletes the swap file of a host. The answer is sent when this is done',
      body: SwapBodySchema,
      example: { action: 'resize', size_mb: 2048 },
      errors: [
        'invalid_state',
        'resource_exhausted',
        'storage_full',
        'memory_in_use',
        'swap_unsupported',
        ...agentErrors,
      ],
      handle: async (context) => {
        const { id } = chooseHost(fleet.view, context.query.host_id)
        const order = planSwap(context.body)
        context.audit({ target: id, detail: describeSwap(context.body) })
        await changeSwap(fleet, context, { hostId: id, order })
        const data = await readSwap(fleet, id)
        return { message: messageOf(data), data }
      },
    }),
  ]
}

interface SwapOrder {
  readonly action: SwapAction
  readonly sizeMb: number
}

/** @throws {BerthError} `missing_field`, `invalid_field` */
function planSwap({ action = 'resize', size_mb: sizeMb }: SwapBody): SwapOrder {
  if (action !== 'create' && action !== 'resize') return { action, sizeMb: 0 }
  if (sizeMb === undefined)
    throw new BerthError('invalid', 'missing_field', 'size_mb: is required', { field: 'size_mb' })
  return { action, sizeMb: checkSwapMb(sizeMb) }
}

function describeSwap({ action = 'resize', size_mb: sizeMb }: SwapBody): string {
  return sizeMb === undefined ? action : `${action}, ${sizeMb} MB`
}

/** @throws {BerthError} if the agent rejects the change or fails */
async function changeSwap(
  fleet: Fleet,
  { operationId, caller }: RequestContext<unknown, unknown, unknown>,
  { hostId, order }: { readonly hostId: string; readonly order: SwapOrder },
): Promise<void> {
  const { revision } = await fleet.agent(hostId).operations.submitOperation({
    operationId,
    requestedBy: caller.user,
    order: { $case: 'changeSwap', value: order },
  })
  await fleet.reached(hostId, revision)
  await awaitDone(fleet, { hostId, operationId })
}

async function readSwap(fleet: Fleet, hostId: string): Promise<Static<typeof SwapSchema>> {
  return swapRow(hostId, await fleet.agent(hostId).hosts.getSwap({}))
}

function swapRow(hostId: string, swap: GetSwapResponse): Static<typeof SwapSchema> {
  const [total, used] = [Math.floor(swap.totalBytes / mib), Math.ceil(swap.usedBytes / mib)]
  return {
    host_id: hostId,
    total_mb: total,
    used_mb: Math.min(used, total),
    free_mb: Math.max(0, total - used),
    enabled: swap.enabled,
    swap_file: swap.file.slice(0, 4096),
    size_mb: Math.floor(swap.fileBytes / mib),
  }
}

function messageOf({ enabled, size_mb: size }: Static<typeof SwapSchema>): string {
  if (size === 0) return 'the host does not have a swap file'
  return enabled ? `the swap file has ${size} MB` : `the swap file has ${size} MB and is not in use`
}
