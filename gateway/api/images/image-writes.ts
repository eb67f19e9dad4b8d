import { Type } from 'typebox'
import { BerthError, conflict } from '../../../shared/errors.js'
import type { Fleet, TemplateView } from '../../fleet/contract.js'
import { route, type Answer, type RequestContext, type Route } from '../../http/route.js'
import { partOf } from '../guests/batch-parts.js'
import { doneFields, givenId, holdersOf, hostField, IdSchema, onHosts } from './image-hosts.js'

const TargetSchema = Type.Object({ template_id: IdSchema, ...hostField }, { title: 'ImageTarget' })
const LooseTargetSchema = Type.Partial(TargetSchema)
const ToggleSchema = Type.Object(
  {
    ...TargetSchema.properties,
    enabled: Type.Boolean({
      description: '`true`: new containers can be created from the image. `false`: they cannot.',
    }),
  },
  { title: 'ImageToggle' },
)
const hostQuery = Type.Object(hostField)

const TaskSchema = Type.Object({ host_id: Type.String(), task_id: Type.String() }, { title: 'ImageTask' })
const tasksField = { tasks: Type.Array(TaskSchema, { description: 'Ids of the queued tasks, one for each host.' }) }

const ofImages = { bound: 'refused', tag: 'Images' } as const
const agentErrors = ['not_found', 'host_offline', 'agent_timeout']
const example = { template_id: 'debian-12' }

type Context = RequestContext<unknown, unknown, unknown>

interface Target {
  readonly id: string
  readonly hostId: string | undefined
}

export function imageWriteRoutes(fleet: Fleet): Route[] {
  return [downloadRoute(fleet), cancelRoute(fleet), deleteRoute(fleet), toggleRoute(fleet)]
}

function downloadRoute(fleet: Fleet): Route {
  return route({
    ...ofImages,
    method: 'POST',
    path: '/images/download',
    name: 'downloadImage',
    scope: 'image:download',
    audit: 'image.download',
    summary:
      'Queues the download of an image. If the image is already downloaded, the answer is 200 and nothing is queued',
    query: hostQuery,
    body: TargetSchema,
    example,
    more: { ...doneFields, ...tasksField },
    statuses: [200, 202],
    errors: ['unsupported', 'task_running', 'resource_exhausted', ...agentErrors],
    handle: (context) => download(fleet, context, givenId('template_id', context)),
  })
}

function cancelRoute(fleet: Fleet): Route {
  return route({
    ...ofImages,
    method: 'POST',
    path: '/images/cancel',
    name: 'cancelImageDownload',
    scope: 'image:download',
    audit: 'image.cancel',
    summary: 'Cancels the download of an image. The downloaded part is deleted before the answer is sent',
    query: hostQuery,
    body: TargetSchema,
    example,
    more: doneFields,
    errors: ['invalid_state', 'task_running', 'image_in_use', ...agentErrors],
    handle: async (context) => {
      const { id, hostId } = audited(context, givenId('template_id', context))
      const held = holdersOf(fleet.view, id, hostId)
      const running = held.filter(({ template }) => template.downloading)
      // The fleet view can be outdated. If it shows no running download, asks all hosts that list the image.
      const asked = running.length > 0 ? running : held
      const { more, unsettled } = await onHosts(fleet, context, idsOf(asked), (host) =>
        fleet.agent(host).images.cancelImageDownload({ templateId: id }),
      )
      return { message: 'download canceled', more, unsettled }
    },
  })
}

function deleteRoute(fleet: Fleet): Route {
  return route({
    ...ofImages,
    method: 'DELETE',
    path: '/images/delete',
    name: 'deleteImage',
    scope: 'image:delete',
    audit: 'image.delete',
    summary:
      'Deletes only the downloaded data of an image, which can be downloaded again. Its template and the containers that were created from it are kept',
    query: LooseTargetSchema,
    body: LooseTargetSchema,
    bodyOptional: true,
    example,
    more: doneFields,
    errors: ['task_running', 'image_in_use', ...agentErrors],
    handle: async (context) => {
      const { id, hostId } = audited(context, givenId('template_id', context))
      const asked = idsOf(holdersOf(fleet.view, id, hostId))
      const { results, more, unsettled } = await onHosts(fleet, context, asked, (host) =>
        fleet.agent(host).images.deleteImage({ templateId: id }),
      )
      const message = results.some(({ deleted }) => deleted) ? 'image deleted' : 'the image was not downloaded'
      return { message, more, unsettled }
    },
  })
}

function toggleRoute(fleet: Fleet): Route {
  return route({
    ...ofImages,
    method: 'PUT',
    path: '/images/toggle',
    name: 'toggleImage',
    scope: 'image:toggle',
    audit: 'image.toggle',
    summary: 'Enables or disables an image for new containers',
    query: hostQuery,
    body: ToggleSchema,
    example: { ...example, enabled: false },
    more: doneFields,
    errors: agentErrors,
    handle: async (context) => {
      const { enabled } = context.body
      const { id, hostId } = givenId('template_id', context)
      context.audit({ target: id, detail: enabled ? 'enabled' : 'disabled' })
      const asked = idsOf(holdersOf(fleet.view, id, hostId))
      const { more, unsettled } = await onHosts(fleet, context, asked, (host) =>
        fleet.agent(host).images.setImageEnabled({ templateId: id, enabled }),
      )
      return { message: enabled ? 'image enabled' : 'image disabled', more, unsettled }
    },
  })
}

interface HostOutcome {
  readonly hostId: string
  readonly task: string
  readonly outcome: 'queued' | 'present' | 'running'
  readonly revision: number
}

async function download(fleet: Fleet, context: Context, target: Target): Promise<Answer<never>> {
  const { id, hostId } = audited(context, target)
  const held = holdersOf(fleet.view, id, hostId)
  const able = hostId === undefined ? held.filter(({ template }) => template.unsupported === '') : held
  if (able.length === 0) throw unsupported(held)
  const taskOf = (host: string): string => (able.length === 1 ? context.operationId : partOf(context.operationId, host))
  const { results, more, unsettled } = await onHosts(fleet, context, idsOf(able), (host) =>
    orderDownload(fleet, { hostId: host, task: taskOf(host), templateId: id, user: context.caller.user }),
  )
  const queued = results.filter(({ outcome }) => outcome === 'queued')
  const tasks = queued.map((asked) => ({ host_id: asked.hostId, task_id: asked.task }))
  if (queued.length > 0) return { status: 202, message: 'download queued', more: { ...more, tasks }, unsettled }
  if (results.some(({ outcome }) => outcome === 'running'))
    throw conflict('task_running', 'the image is being downloaded')
  return { message: 'the image is already downloaded', more: { ...more, tasks }, unsettled }
}

interface DownloadOrder {
  readonly hostId: string
  readonly task: string
  readonly templateId: string
  readonly user: string
}

/** Submits a download. It is not an error if a host already has the image or is downloading it. */
async function orderDownload(fleet: Fleet, { hostId, task, templateId, user }: DownloadOrder): Promise<HostOutcome> {
  const order = { $case: 'imageDownload', value: { templateId } } as const
  try {
    const { revision } = await fleet
      .agent(hostId)
      .operations.submitOperation({ operationId: task, requestedBy: user, order })
    return { hostId, task, outcome: 'queued', revision }
  } catch (error) {
    const outcome = error instanceof BerthError ? refusedOutcomes.get(error.code) : undefined
    if (!outcome) throw error
    return { hostId, task, outcome, revision: 0 }
  }
}

const refusedOutcomes: ReadonlyMap<string, HostOutcome['outcome']> = new Map([
  ['image_present', 'present'],
  ['task_running', 'running'],
])

function unsupported([first]: readonly TemplateView[]): BerthError {
  const why = first?.template.unsupported ?? ''
  return new BerthError('invalid', 'unsupported', `template_id: ${why}`, { field: 'template_id' })
}

function audited(context: Context, target: Target): Target {
  context.audit({ target: target.id, ...(target.hostId ? { detail: `host ${target.hostId}` } : {}) })
  return target
}

function idsOf(held: readonly TemplateView[]): string[] {
  return held.map(({ hostId }) => hostId)
}
